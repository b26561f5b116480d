"""Readers of the output of other programs, for importers and ceilings.

What a file does not state stays absent. Readers check a file against itself and refuse a truncated
one.
"""
