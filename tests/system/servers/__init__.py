"""Real storage servers on the loopback interface, for the system and conformance tests.

Each module has a `running()` that starts a server on free ports in its own directory, yields the
connection settings for clients, and stops its processes.
"""
