"""The process in which an engine runs: its messages, and what counts its CPU, memory and I/O."""
