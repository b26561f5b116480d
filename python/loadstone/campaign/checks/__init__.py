"""What a campaign must not say, although each of its keys is well formed."""
