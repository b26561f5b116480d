"""Encrypted objects and paths as another implementation opens them, by the reference."""

import base64
import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

SEGMENT_BYTES = 64 << 10
RUN = 2**32 - 1
CONTENT_KEY_BYTES = {"aes-256-gcm": 32, "aes-256-cbc": 64}


@dataclass(frozen=True)
class Reader:
    """The user who opens an envelope: a number, and their own key or the private key of an
    inbox.
    """

    number: int
    key: bytes | None = None
    inbox: bytes | None = None


@dataclass(frozen=True)
class Keys:
    """The keys of a run, which follow from its identity and its seed."""

    run: str
    seed: int

    def of_run(self) -> Reader:
        return Reader(RUN, key=self.derived(b"loadstone run", 0))

    def of_owner(self, user: int) -> Reader:
        return Reader(user, key=self.derived(b"loadstone own", user))

    def of_inbox(self, user: int) -> Reader:
        return Reader(user, inbox=self.derived(b"loadstone inbox", user))

    def of_paths(self, user: int | None = None) -> bytes:
        """Return what seals the paths of a user's private space, or all others."""
        label = b"loadstone run paths" if user is None else b"loadstone paths"
        return self.derived(label, user or 0, 64)

    def derived(self, label: bytes, number: int, length: int = 32) -> bytes:
        named = bytes.fromhex(self.run) + self.seed.to_bytes(8, "little")
        source = hashlib.sha256(b"loadstone test key" + named).digest()
        info = label + number.to_bytes(8, "little") + bytes(16)
        return HKDFExpand(hashes.SHA256(), length, info).derive(source)


def opened_path(stored: str, head: str, key: bytes) -> str:
    """Return the key behind a head that is plain; raise where a segment was not sealed there."""
    plain = head
    at = len(head)
    for segment in stored[len(head) :].split("/"):
        sealed = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
        plain += AESSIV(key).decrypt(sealed, [stored[:at].encode()]).decode() + "/"
        at += len(segment) + 1
    return plain.removesuffix("/")


def opened(stored: bytes, cipher: str, reader: Reader) -> bytes:
    """Return the plaintext of an object; raise where a key, a tag or a MAC does not fit."""
    form = 2 if reader.inbox else 1
    assert stored[:8] == b"LSK" + bytes([form]) + reader.number.to_bytes(4, "little")
    at = 8
    key = reader.key
    if reader.inbox is not None:
        private = X25519PrivateKey.from_private_bytes(reader.inbox)
        writer, at = stored[8:40], 40
        secret = private.exchange(X25519PublicKey.from_public_bytes(writer))
        info = b"loadstone wrap" + writer + private.public_key().public_bytes_raw()
        key = HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(secret)
    assert key is not None
    end = at + CONTENT_KEY_BYTES[cipher] + 8
    content = aes_key_unwrap(key, stored[at:end])
    plain = b""
    for start in range(0, len(stored), SEGMENT_BYTES):
        room = stored[max(start, end) : start + SEGMENT_BYTES]
        plain += _gcm(content, room) if cipher == "aes-256-gcm" else _cbc(content, room)
    return plain


def _gcm(content: bytes, room: bytes) -> bytes:
    return AESGCM(content).decrypt(room[:12], room[12:], None)


def _cbc(content: bytes, room: bytes) -> bytes:
    piece = room[: len(room) // 16 * 16]
    sealed, mac = piece[:-32], piece[-32:]
    check = hmac.HMAC(content[:32], hashes.SHA256())
    check.update(sealed)
    check.verify(mac)
    aes = Cipher(algorithms.AES256(content[32:]), modes.CBC(sealed[:16])).decryptor()
    padded = aes.update(sealed[16:]) + aes.finalize()
    assert padded[-16:] == bytes([16]) * 16
    return padded[:-16]
