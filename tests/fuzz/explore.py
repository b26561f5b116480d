"""atheris on one reader: `python -m tests.fuzz.explore TARGET [OPTIONS OF LIBFUZZER]`."""

import sys

import atheris  # type: ignore[import-not-found, unused-ignore]

with atheris.instrument_imports(include=["loadstone", "ruamel"]):
    from tests.fuzz import readers


def main() -> None:
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in readers.TARGETS:
        sys.exit(f"error: found {name!r}, allowed: {', '.join(readers.TARGETS)}")

    def try_input(data: bytes) -> None:
        readers.attempt(name, data)

    atheris.Setup(sys.argv, try_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
