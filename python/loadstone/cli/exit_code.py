"""Exit codes of all commands, so that jobs can distinguish outcomes."""

FAILED = 1
"""A command or a request failed."""

USAGE = 2
WORSE = 3
"""A case crossed a threshold or got slower; distinct from a failed command."""

VOID = 4
"""A result must not be used; for a comparison, all cases are void and none has a ratio."""

LEFT = 5
"""Everything else succeeded, but data of the run is still on a target."""

UNDECIDED = 6
"""A gate could not decide within its blocks whether the new build is worse."""

INTERRUPTED = 130
