"""Checks of campaigns whose keys are each valid by themselves."""
