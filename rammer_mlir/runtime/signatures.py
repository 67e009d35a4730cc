"""Signs artifacts and verifies them: Ed25519 over the SHA-256 of every member.

The seal detects accidental changes; it is no secret, so anyone who changes a file can compute a new
seal. A signature requires a private key, and is verified with the public key.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType

from rammer_mlir.errors import ArtifactError, OptionError
from rammer_mlir.support.packages import optional_package

PemKey = str | os.PathLike[str] | bytes
"""A file with a key in PEM, or the key as PEM bytes."""

SIGNATURE = "signature.bin"
"""The member with the public key and the signature."""

_HEAD = b"rammer-mlir artifact, signature version 1\n"
"""Prefix of signed messages, so that signatures of other data are invalid for artifacts."""

_KEY_BYTES = 32

Pieces = Iterable[bytes | memoryview]
Signer = Callable[[bytes], bytes]
"""A function that returns the signature member for a message: the public key and the signature."""
Verifier = Callable[[Path, bytes, bytes | None], None]
"""A function of path, message and signature member (None if missing); raises ArtifactError."""


def message_of(members: Mapping[str, Pieces]) -> bytes:
    """Return the bytes to sign: names and SHA-256 digests of all members except the signature.

    ``members`` has the content of each of these members, by the member's name.
    """
    lines = [_HEAD]
    for name, pieces in sorted(members.items()):
        found = hashlib.sha256()
        for piece in pieces:
            found.update(piece)
        lines.append(f"{found.hexdigest()} {name!r}\n".encode())
    return b"".join(lines)


def signer_of(key: PemKey) -> Signer:
    """Return a function that signs a message with the private key ``key``.

    Raises:
        OptionError: if ``key`` is not an Ed25519 private key.
        MissingPackageError: if the package for signatures is not installed.
    """
    content, serialization, ed25519 = read_key(key, "sign"), _serialization(), _ed25519()
    try:
        private = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, _unsupported()) as error:
        raise OptionError(_not_a_key("sign", "a private key without a password")) from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise OptionError(_not_a_key("sign", "a private key"))
    public: bytes = private.public_key().public_bytes_raw()
    return lambda message: public + private.sign(message)


def verifier_of(key: PemKey) -> Verifier:
    """Return a function that raises ArtifactError unless a file has a signature valid for ``key``.

    ``key`` is the public key. The arguments of the returned function are the file's path, for the
    error message, the signed bytes (``message_of``), and the content of the signature member.

    Raises:
        OptionError: if ``key`` is not an Ed25519 public key.
        MissingPackageError: if the package for signatures is not installed.
    """
    content, serialization, ed25519 = read_key(key, "verify"), _serialization(), _ed25519()
    try:
        public = serialization.load_pem_public_key(content)
    except (ValueError, TypeError, _unsupported()) as error:
        raise OptionError(_not_a_key("verify", "a public key")) from error
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise OptionError(_not_a_key("verify", "a public key"))
    expected: bytes = public.public_bytes_raw()
    wrong: type[Exception] = _package("cryptography.exceptions").InvalidSignature

    def verify(path: Path, message: bytes, member: bytes | None) -> None:
        if member is None:
            raise ArtifactError(
                f"'{path}' has no signature: expected one of the given key; sign it with --sign "
                "where it is compiled, or load it without a key if you trust its source"
            )
        found, signature = member[:_KEY_BYTES], member[_KEY_BYTES:]
        if found != expected:
            raise ArtifactError(
                f"'{path}' is signed with another key: expected {expected.hex()[:16]}..., found "
                f"{found.hex()[:16]}...; give the public key of whoever compiled it"
            )
        try:
            public.verify(signature, message)
        except wrong as error:
            raise ArtifactError(
                f"'{path}' was changed since it was signed: expected what its signature is of; get "
                "the file again from whoever compiled it"
            ) from error

    return verify


def read_key(key: PemKey, what: str) -> bytes:
    """Return the PEM bytes of a key, given as PEM bytes or as the path of a PEM file.

    ``what`` is the name of the option that gives the key, for the error message.

    Raises:
        OptionError: if the file cannot be read.
    """
    if isinstance(key, bytes):
        return key
    try:
        return Path(key).read_bytes()
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"{what}: cannot read the key {key!r}: {reason}") from error


def _not_a_key(what: str, expected: str) -> str:
    return (
        f"{what}: expected {expected} for Ed25519 in PEM, found something else; make one with "
        "'openssl genpkey -algorithm ed25519 -out key.pem', its public key with 'openssl pkey -in "
        "key.pem -pubout -out public.pem'"
    )


def _package(name: str) -> ModuleType:
    return optional_package(name, "a signature", "install it with 'pip install rammer-mlir[sign]'")


def _serialization() -> ModuleType:
    return _package("cryptography.hazmat.primitives.serialization")


def _ed25519() -> ModuleType:
    return _package("cryptography.hazmat.primitives.asymmetric.ed25519")


def _unsupported() -> type[Exception]:
    return _package("cryptography.exceptions").UnsupportedAlgorithm
