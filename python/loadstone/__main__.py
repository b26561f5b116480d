"""`python -m loadstone`, and the `loadstone` command."""

import sys

from loadstone import cli


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(cli.main())


if __name__ == "__main__":
    main()
