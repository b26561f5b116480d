"""Results of all trials of a case together, and their course over time."""
