"""Limits of numbers: verdicts and their evidence, ceilings, interventions, searches."""
