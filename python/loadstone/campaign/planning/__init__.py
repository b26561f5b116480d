"""Turns a campaign into ordered trial documents, estimates their cost, and plans a resumed run."""
