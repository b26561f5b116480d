"""A local web page for a folder of runs: lists and compares them, shows reports, follows one live.

It reads run folders and writes nothing. Its pages use the templates of the reports.
"""
