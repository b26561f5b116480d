"""What a number is worth: labels, validity, thresholds, and findings about a trial."""
