"""Turns a campaign file or command-line flags into a Plan: an ordered list of trial documents.

Reads only the campaign file and the names of environment variables; knows nothing of how trials are
executed, recorded or reported.
"""
