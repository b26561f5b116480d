"""One load from many client hosts: launches agents, starts them together, merges results."""
