"""Scripts: tables of actions that depend on each other, and what is made of them.

Generators and converters write a script, `check` finds all of its mistakes at once, and `compiled`
turns it into the requests that the load generator runs, each with what must come back.
"""
