"""What repeated measurements say and how surely: ratios, series, tests, percentiles."""
