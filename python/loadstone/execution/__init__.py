"""A plan in, a run out: runs, watches and records trials in order. Nothing is judged here."""
