"""The host that makes the load: its facts, its limits, and whether a target shares it."""
