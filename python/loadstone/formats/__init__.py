"""Parsers of other programs' output, for importers and ceilings.

Values that a file does not state stay absent. Parsers check a file for consistency and refuse a
truncated one.
"""
