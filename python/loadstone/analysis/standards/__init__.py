"""Requirements on reports: the standard, common mistakes and plausibility rules."""
