"""The process in which an engine runs: what it is told and tells, and what it counts."""
