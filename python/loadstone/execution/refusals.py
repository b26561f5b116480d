"""Converts errors of the load generator before the load starts into TargetError."""

from loadstone import _loadgen
from loadstone.errors import LoadstoneError, TargetError

Raised = (_loadgen.TargetError, ValueError, OSError)
"""Errors that `_loadgen.run_trial` itself raises."""


def as_target_error(error: Exception, where: str = "") -> TargetError:
    """Return an error of the load generator as a TargetError, with a place before its message."""
    if isinstance(error, _loadgen.TargetError | LoadstoneError):
        return TargetError(where + error.message, error.hint, kind=error.kind)
    return TargetError(f"{where}{error}")


def target_error(target: str, error: Exception) -> TargetError:
    """Return the error of a named target."""
    return as_target_error(error, f'target "{target}": ')
