"""What limited a number: verdicts and their evidence, ceilings, interventions, searches."""
