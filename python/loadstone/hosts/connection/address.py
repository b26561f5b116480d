"""Addresses of a controller in words, taken apart."""


def split_address(text: str) -> tuple[str, int]:
    """Return the address and the port, 0 without one, of "10.0.0.1:7000" or "[::1]:7000"."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, int(port.removeprefix(":") or 0)
    if text.count(":") > 1:
        return text, 0
    host, _, port = text.partition(":")
    return host, int(port or 0)
