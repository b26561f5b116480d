"""Runs a plan: executes its trials in order, observes and records them. Nothing is judged here."""
