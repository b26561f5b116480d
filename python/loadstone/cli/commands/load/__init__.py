"""Commands that make load, or prepare or end it."""
