"""Facts and limits of the host that makes the load."""
