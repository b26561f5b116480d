"""The process in which an engine runs: its messages, and counters of CPU, memory and I/O."""
