"""The site's dask, for launchers that use its settings; no other module imports it."""

import importlib
import logging
import platform
from typing import Any

from loadstone.errors import HostError


def import_dask(module: str, extra: str) -> Any:
    """Import a module of dask, which reads the settings of the user and the site.

    Raises HostError if it is not installed, with the extra that contains it, and if a settings file
    cannot be read.
    """
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise HostError(
            f"this launcher needs {module.partition('.')[0]}: {error}",
            f"pip install 'loadstone[{extra}]', on the controller",
            kind="program-absent",
        ) from error
    except Exception as error:
        # Dask's message names the file.
        raise HostError(
            f"read dask's settings: {in_one_line(error)}",
            "correct that file, or set DASK_CONFIG to a folder of other settings",
        ) from error
    # Dask gets it from platform, which runs `uname -p`: that program would inherit the secrets in
    # this environment.
    vars(platform.uname())["processor"] = platform.machine()
    # The launcher's own errors already report the problem.
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    return imported


def in_one_line(error: Exception) -> str:
    """Return an error's message in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def settings_files() -> str:
    """Return the existing files with dask's settings, for a hint."""
    from dask import config

    files = [str(path) for path, _ in config.collect_yaml(config.paths, return_paths=True)]
    return ", ".join(files) or "DASK_ variables, as there are no files of them"
