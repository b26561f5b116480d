"""A run that began before: what a campaign says differently, what is left to do and to remove."""
