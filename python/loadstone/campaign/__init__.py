"""In: a campaign file, or flags. Out: a Plan, which is a list of trial documents in order.

Pure but for reading the file and the names in the environment; knows nothing of how trials are
executed, recorded or reported.
"""
