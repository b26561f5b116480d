"""Encrypted objects as another implementation opens them: envelopes and pieces by the reference."""

import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

SEGMENT_BYTES = 64 << 10
RUN = 2**32 - 1
CONTENT_KEY_BYTES = {"aes-256-gcm": 32, "aes-256-cbc": 64}


@dataclass(frozen=True)
class Reader:
    """Who opens: a number, and the key of one's own or the private key of an inbox."""

    number: int
    own: bytes | None = None
    inbox: bytes | None = None


@dataclass(frozen=True)
class Keys:
    """The keys of a run, which follow from its identity and its seed."""

    run: str
    seed: int

    def of_run(self) -> Reader:
        return Reader(RUN, own=self.derived(b"loadstone run", 0))

    def of_owner(self, user: int) -> Reader:
        return Reader(user, own=self.derived(b"loadstone own", user))

    def of_inbox(self, user: int) -> Reader:
        return Reader(user, inbox=self.derived(b"loadstone inbox", user))

    def derived(self, label: bytes, number: int) -> bytes:
        named = bytes.fromhex(self.run) + self.seed.to_bytes(8, "little")
        source = hashlib.sha256(b"loadstone test key" + named).digest()
        info = label + number.to_bytes(8, "little") + bytes(16)
        return HKDFExpand(hashes.SHA256(), 32, info).derive(source)


def opened(stored: bytes, cipher: str, reader: Reader) -> bytes:
    """Return the plaintext of an object; raise where a key, a tag or a MAC does not fit."""
    form = 2 if reader.inbox else 1
    assert stored[:8] == b"LSK" + bytes([form]) + reader.number.to_bytes(4, "little")
    at = 8
    key = reader.own
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
