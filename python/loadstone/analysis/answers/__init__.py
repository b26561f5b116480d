"""The answer for people: one row a case, and the sentence above them."""
