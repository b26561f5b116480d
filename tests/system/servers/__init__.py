"""Real storage servers on the loopback interface, for the system and conformance tests.

Each module has a `running()` that starts a server on free ports in a directory of its own, gives
what a client must know, and ends what it started.
"""
