"""One authority for one run, in memory: what has no certificate of it is no part of the run."""

import datetime
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from loadstone.hosts.connection.tls import Identity


class Authority:
    """Issues the certificates of one run; its own key never leaves this object."""

    def __init__(self, run: str) -> None:
        """`run` is the run's identity, which the certificates carry."""
        self._run = run
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"loadstone run {run[:16]}", run)
        made = _certificate(name, name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = made.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> str:
        """The authority's own certificate, by which both sides know each other."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue_host(self, name: str) -> Identity:
        """Return a new identity, by which a host connects and which cannot be connected to."""
        return self._issue(name, [ExtendedKeyUsageOID.CLIENT_AUTH])

    def issue_controller(self, address: str) -> Identity:
        """Return the identity of the controller that listens on an IP address."""
        return self._issue("controller", [ExtendedKeyUsageOID.SERVER_AUTH], address)

    def _issue(
        self, name: str, uses: Sequence[x509.ObjectIdentifier], address: str = ""
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(_name(name, self._run), self._certificate.subject, key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=True)
        if address:
            names = [x509.IPAddress(ipaddress.ip_address(address))]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = made.sign(self._key, hashes.SHA256())
        return Identity(
            certificate=signed.public_bytes(serialization.Encoding.PEM).decode(),
            key=key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        )


def _name(common: str, run: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, common[:64]),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, run[:64]),
        ]
    )


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # A certificate is worth nothing after its run, whose controller alone knows the authority.
        # Dates would only fail a host whose clock is wrong, for a reason that TLS cannot explain.
        .not_valid_before(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC))
    )
