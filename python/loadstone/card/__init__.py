"""The semantics card: tests which semantics a store honours, instead of trusting its
documentation.
"""
