"""What other programs print, read into trials: importers and ceilings read the same files.

A reader takes what a program wrote and nothing else: what is not in it stays absent. It checks what
the file says against itself, so that one that was cut off is refused and never made a number.
"""
