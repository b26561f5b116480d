"""Other programs that a run starts: hooks, ceilings, the ceph command, null servers."""
