"""The questions of a card by subject: one function each, independent of order."""
