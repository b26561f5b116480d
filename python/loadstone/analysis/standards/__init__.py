"""What a report must hold to: the standard, common mistakes and plausibility rules."""
