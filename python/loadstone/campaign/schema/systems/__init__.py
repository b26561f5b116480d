"""Keys about systems: targets, their probes and drivers, nodes and client hosts."""
