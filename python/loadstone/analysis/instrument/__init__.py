"""The instrument and its host as suspects: headroom, client limits, stalls, backlog."""
