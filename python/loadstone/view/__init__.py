"""A local page over a folder of runs: lists them, opens reports, compares two, follows one live.

It reads run folders and writes nothing. What it serves is made from templates of the reports.
"""
