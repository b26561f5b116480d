"""Mistakes in campaigns whose keys are each well formed."""
