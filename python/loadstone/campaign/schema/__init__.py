"""What a campaign file may say, as frozen values."""
