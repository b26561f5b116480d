"""Reads a campaign from a file, flags and the environment, with the place of every mistake."""
