"""Validity of numbers: labels, standings, thresholds, and findings about a trial."""
