"""A driver that runs whole GPU programs on the interpreter in place of a device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds
from rammer_mlir.runtime.gpu.driver import Argument, Array, Launch

from .grid import launch
from .memory import INITIAL, READABLE, WRITABLE, Memory
from .module import PtxModule, Variable
from .parser import parse

_STATES = {"read": READABLE, "kept": READABLE | WRITABLE, "written": WRITABLE}
_BASE = 0x7A00_0000_0000
_CAPACITY = 1 << 30


def _state(variable: Variable) -> int:
    if variable.space == "const":
        return _STATES["read"]
    return _STATES["kept"] | (INITIAL if variable.content else 0)


class PtxDriver:
    """A driver of a device that interprets PTX.

    It has a single stream. Each call executes its work before it returns.
    """

    dlpack_device = (1, 0)
    name = "the interpreter of PTX"

    def __init__(self, chip: str) -> None:
        """Create a device of the chip ``chip`` with empty memory."""
        self.chip = chip
        self.memory = Memory(_BASE, _CAPACITY)

    def peaks(self) -> None:
        """Return None, since the interpreter's peak rates say nothing about a GPU."""

    def current(self) -> nullcontext[None]:
        """Return a context without effect, since the interpreter has no current device."""
        return nullcontext()

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Parse PTX, and place its global variables in memory; return the kernel ``entry``."""
        assert kind == "ptx", kind
        module = parse(code.decode())
        symbols: dict[str, int] = {}
        for variable in module.variables:
            if variable.space in ("global", "const"):
                buffer = self.memory.place(variable.name, variable.num_bytes, _state(variable))
                content = np.frombuffer(variable.content, np.uint8)
                self.memory.slice(buffer.begin, len(content))[:] = content
                symbols[variable.name] = buffer.begin
        return module, entry, symbols

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return the needs of a block: ``threads`` threads, no registers and no shared memory."""
        del kernel
        return BlockNeeds(threads, 0, 0)

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return a number of resident blocks that is larger than any launch."""
        del kernel, threads
        return 1 << 30

    def allocate(self, num_bytes: int) -> int:
        """Allocate a buffer of ``num_bytes`` bytes; return its address."""
        return self.memory.place("a buffer", num_bytes, WRITABLE).begin

    def free(self, address: int) -> None:
        """Free the buffer at an address; later accesses of it are faults."""
        self.memory.release(address)

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Set ``num_bytes`` bytes from ``address`` on to zero."""
        del stream
        self.memory.slice(address, num_bytes)[:] = 0

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy ``array`` to device memory at ``address``."""
        del stream
        content = np.frombuffer(array.tobytes(), np.uint8)
        self.memory.slice(address, content.size)[:] = content

    def download(self, array: Array, address: int, stream: object) -> None:
        """Copy device memory at ``address`` to ``array``."""
        del stream
        found = self.memory.slice(address, array.nbytes)
        array[...] = np.frombuffer(found.tobytes(), array.dtype).reshape(array.shape)

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Execute all blocks of a kernel to the end.

        Each argument's ``use`` says whether the kernel may read its buffer, write it, or both.
        """
        del stream
        parts: Any = kernel
        module: PtxModule = parts[0]
        for argument in arguments:
            self.memory.rename(argument.address, argument.name)
            self.memory.set_state(argument.address, argument.num_bytes, _STATES[argument.use])
        addresses = [argument.address for argument in arguments]
        launch(module, parts[1], self.memory, addresses, grid.blocks, grid.threads, parts[2])

    def create_stream(self) -> object:
        """Return the only stream, 0."""
        return 0

    def stream_of(self, handle: int) -> object:
        """Return the stream of a handle: the handle itself."""
        return handle

    def stream_handle(self, stream: object) -> int:
        """Return the handle of a stream: the stream itself."""
        assert isinstance(stream, int)
        return stream

    def order(self, before: object, after: object) -> None:
        """Do nothing, since each call executes its work before it returns."""

    def synchronize(self, stream: object) -> None:
        """Do nothing, since each call executes its work before it returns."""

    def record_event(self, stream: object) -> object:
        """Return None, since the interpreter has no clock."""

    def seconds_between(self, begin: object, end: object) -> float:
        """Return 0, since the interpreter has no clock."""
        del begin, end
        return 0.0

    def begin_capture(self, stream: object) -> None:
        """Raise NotImplementedError: the interpreter has no graphs."""
        raise NotImplementedError

    def end_capture(self, stream: object) -> object:
        """Raise NotImplementedError: the interpreter has no graphs."""
        raise NotImplementedError

    def replay(self, graph: object, stream: object) -> None:
        """Raise NotImplementedError: the interpreter has no graphs."""
        raise NotImplementedError

    def forget(self, graph: object) -> None:
        """Raise NotImplementedError: the interpreter has no graphs."""
        raise NotImplementedError
