"""TLS before the embedded store, which has none: it ends in the same process, on the same core."""

import asyncio
import datetime
import ipaddress
import ssl
import tempfile
import threading
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key = Literal["rsa", "ec"]
"""A signature of RSA takes the server a hundred times as long as one of an elliptic curve."""

RSA_BITS = 4096
PIECE = 1 << 16


def serve(address: str, port: int, kind: Key) -> int:
    """Encrypt the traffic of a server on another port of an address; return the new port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate(address, kind))
        file.flush()
        context.load_cert_chain(file.name)
    # Each handshake is a whole one.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_store, to_store = await asyncio.open_connection(address, port)
        await asyncio.gather(_pass(reader, to_store), _pass(from_store, writer))

    async def accept() -> None:
        server = await asyncio.start_server(connected, address, 0, ssl=context, backlog=1024)
        ports.append(server.sockets[0].getsockname()[1])
        is_open.set()
        await server.serve_forever()

    ports: list[int] = []
    is_open = threading.Event()
    threading.Thread(target=lambda: asyncio.run(accept()), daemon=True).start()
    is_open.wait()
    return ports[0]


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    except OSError:
        # The peer disconnected after it had sent everything.
        pass
    finally:
        writer.close()


def certificate(address: str, kind: Key) -> bytes:
    """Return a certificate of an address with its key, as PEM."""
    key = (
        rsa.generate_private_key(public_exponent=65_537, key_size=RSA_BITS)
        if kind == "rsa"
        else ec.generate_private_key(ec.SECP256R1())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rig")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    return signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
