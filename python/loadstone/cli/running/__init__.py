"""Shared steps of the commands that run a load: consent, preview, session, hosts, answers."""
