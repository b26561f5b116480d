"""Scripts: tables of actions that depend on each other, and the requests compiled from them.

Generators and converters write a script, `check` finds all of its mistakes at once, and `compiled`
turns it into requests for the load generator, each with its expected response.
"""
