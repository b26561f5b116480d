"""Runs trials of queries: requirements, engine processes, and recorded rows."""
