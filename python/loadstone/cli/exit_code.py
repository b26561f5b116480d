"""Exit codes of all commands, for jobs that must tell one end from another."""

FAILED = 1
"""A command or a request failed."""

USAGE = 2
WORSE = 3
"""A case crossed a threshold or got slower: a job can tell that from a command that failed."""

VOID = 4
"""A result must not be used; of a comparison, no case has a ratio, for all are void."""

LEFT = 5
"""All else went well, and something that the run made is still on a target."""

UNDECIDED = 6
"""A gate could not tell within its blocks whether the new build is worse."""

INTERRUPTED = 130
