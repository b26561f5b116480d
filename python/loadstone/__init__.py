"""Measures storage: object stores, file systems, block devices, networks, and SQL on storage."""

__version__ = "0.1.0"
