"""Reads the text of a campaign, with the place of every mistake."""
