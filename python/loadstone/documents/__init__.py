"""The documents that parts of the program hand each other as JSON, as types that mypy checks."""
