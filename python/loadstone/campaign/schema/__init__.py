"""The keys of a campaign file, as frozen values."""
