"""The objects of a case: where they are, and what of them is there before the load."""
