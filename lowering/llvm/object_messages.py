"""Encodes messages to and from the worker processes that compile LLVM IR to objects."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import Self

from rammer_mlir.lowering.llvm.machine import Machine

_SECONDS = struct.Struct("<d")


@dataclass(frozen=True)
class CompiledObject:
    """An object file, and the seconds of processor time that LLVM took for it."""

    object: bytes
    seconds: float

    def encode(self) -> bytes:
        """Return the message by which a worker process sends this object."""
        return _SECONDS.pack(self.seconds) + self.object

    @classmethod
    def decode(cls, message: bytes) -> Self:
        """Return the object that a worker process sent as ``message``."""
        (seconds,) = _SECONDS.unpack_from(message)
        return cls(message[_SECONDS.size :], seconds)


def request(text: str, machine: Machine) -> bytes:
    """Return the message that asks a worker to compile LLVM IR text for ``machine``."""
    return f"{json.dumps(asdict(machine))}\n{text}".encode()


def request_of(message: bytes) -> tuple[str, Machine]:
    """Return the LLVM IR text and the target machine of a message made by ``request``."""
    machine, _, text = message.decode().partition("\n")
    return text, Machine(**json.loads(machine))
