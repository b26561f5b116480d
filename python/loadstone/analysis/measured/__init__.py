"""From the tables of a run to the work and the times of each trial."""
