"""Mutual TLS within one run: both sides show a certificate that the run's authority issued."""

import os
import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate with its key, both as PEM texts. The key is secret: never write it anywhere
    but where the host that it is for reads it.
    """

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Identity(...)"


def context_of_controller(authority: str, identity: Identity) -> ssl.SSLContext:
    """Return the context in which the controller accepts connections of invited hosts alone."""
    return _context(ssl.PROTOCOL_TLS_SERVER, authority, identity)


def context_of_host(authority: str, identity: Identity) -> ssl.SSLContext:
    """Return the context in which a host connects to the controller of its run, and to no other."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, authority, identity)


def _context(protocol: int, authority: str, identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority)
    # OpenSSL reads a key from a file only. This one is in memory, and has no name.
    with open(os.memfd_create("identity"), "w", encoding="ascii") as file:
        file.write(identity.certificate + identity.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
