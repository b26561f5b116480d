"""The connection of controller and agents: addresses, certificates, and messages."""
