"""Plan in, Run out: trials are run in order, watched and kept. Draws no conclusions."""
