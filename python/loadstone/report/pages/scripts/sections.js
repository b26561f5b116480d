// What is drawn on a page, by the place that it stands in; each chart is absent where its data are.

import { ratios } from "./comparison.js";
import { distribution } from "./distributions.js";
import { trends } from "./history.js";
import { dataAlongLoad, heatmap, overview, rateLatency } from "./load.js";
import { layoutCharts } from "./operations.js";
import { proofs } from "./proofs.js";
import { queryBytes, querySeconds, streamSeconds } from "./queries.js";
import { searchLatency, searchSteps } from "./searches.js";
import { data } from "./selection.js";
import { sessions } from "./sessions.js";
import { overTime } from "./times.js";

export const SECTIONS = {
  layout: layoutCharts,
  overview: () => (data.results ? overview() : []),
  searches: () => [searchSteps(), searchLatency()],
  sessions: () => [sessions()],
  proofs: () => [proofs()],
  sweep: () => (data.results ? [rateLatency(), heatmap(), dataAlongLoad()] : []),
  "over-time": overTime,
  latency: () => (data.results ? [distribution()] : []),
  queries: () => [querySeconds(), streamSeconds(), queryBytes()],
  ratios: () => [ratios()],
  trends,
};
