"""Statistics of repeated measurements: means, ratios, tests, series, percentiles."""
