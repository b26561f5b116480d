"""The connection between controller and agents: addresses, certificates, and messages."""
