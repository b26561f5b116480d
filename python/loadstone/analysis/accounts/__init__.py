"""Measurements of whatever origin in one form, and comparisons between two of them."""
