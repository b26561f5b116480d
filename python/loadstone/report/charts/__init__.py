"""Charts: findings to Vega-Lite specifications and images."""
