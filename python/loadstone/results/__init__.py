"""Run folders: writing records, and reading them as a `Run`.

This package only handles files, and does not know how load is made or judged. `record` is the
result of one trial, `store` reads a folder, `writer` writes one.
"""
