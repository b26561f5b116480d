"""What the trials of one case say together, and over time."""
