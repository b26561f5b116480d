"""Trials of queries: what they need, the processes of their engines, and the rows they leave."""
