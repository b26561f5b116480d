"""The semantics card: what a store honours, each question tried and not believed."""
