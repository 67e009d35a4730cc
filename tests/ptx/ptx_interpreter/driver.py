"""The interpreter as a driver: whole programs run on it as they run on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds
from rammer_mlir.runtime.gpu.driver import Argument, Array, Launch

from .grid import launch
from .memory import READABLE, WRITABLE, Memory
from .module import PtxModule
from .parser import parse

_STATES = {"read": READABLE, "kept": READABLE | WRITABLE, "written": WRITABLE}
_BASE = 0x7A00_0000_0000
_CAPACITY = 1 << 30


class PtxDriver:
    """A device that interprets PTX. Its only stream does all work at once."""

    dlpack_device = (1, 0)
    name = "the interpreter of PTX"

    def __init__(self, chip: str) -> None:
        """Begin with empty memory."""
        self.chip = chip
        self.memory = Memory(_BASE, _CAPACITY)

    def peaks(self) -> None:
        """Return nothing: an interpreter's speed says nothing about a GPU."""

    def activate(self) -> None:
        """Do nothing."""

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Parse PTX and place its variables."""
        assert kind == "ptx", kind
        module = parse(code.decode())
        symbols: dict[str, int] = {}
        for variable in module.variables:
            if variable.space in ("global", "const"):
                state = _STATES["kept" if variable.space == "global" else "read"]
                buffer = self.memory.place(variable.name, variable.num_bytes, state)
                content = np.frombuffer(variable.content, np.uint8)
                self.memory.slice(buffer.begin, len(content))[:] = content
                symbols[variable.name] = buffer.begin
        return module, entry, symbols

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return the threads; nothing else is limited."""
        del kernel
        return BlockNeeds(threads, 0, 0)

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return a number that no launch has."""
        del kernel, threads
        return 1 << 30

    def allocate(self, num_bytes: int) -> int:
        """Place a buffer."""
        return self.memory.place("a buffer", num_bytes, WRITABLE).begin

    def free(self, address: int) -> None:
        """Let a buffer be no more."""
        self.memory.release(address)

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Zero memory."""
        del stream
        self.memory.slice(address, num_bytes)[:] = 0

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy to the memory."""
        del stream
        content = np.frombuffer(array.tobytes(), np.uint8)
        self.memory.slice(address, content.size)[:] = content

    def download(self, array: Array, address: int, stream: object) -> None:
        """Copy from the memory."""
        del stream
        found = self.memory.slice(address, array.nbytes)
        array[...] = np.frombuffer(found.tobytes(), array.dtype).reshape(array.shape)

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Execute a kernel to its end."""
        del stream
        parts: Any = kernel
        module: PtxModule = parts[0]
        for argument in arguments:
            self.memory.rename(argument.address, argument.name)
            self.memory.set_state(argument.address, argument.num_bytes, _STATES[argument.use])
        addresses = [argument.address for argument in arguments]
        launch(module, parts[1], self.memory, addresses, grid.blocks, grid.threads, parts[2])

    def create_stream(self) -> object:
        """Return the only one."""
        return 0

    def stream_of(self, handle: int) -> object:
        """Return the only one."""
        return handle

    def stream_handle(self, stream: object) -> int:
        """Return the only one's."""
        assert isinstance(stream, int)
        return stream

    def order(self, before: object, after: object) -> None:
        """Do nothing: work is done at once."""

    def synchronize(self, stream: object) -> None:
        """Do nothing: work is done at once."""

    def record_event(self, stream: object) -> object:
        """Return nothing: the interpreter has no clock."""

    def seconds_between(self, begin: object, end: object) -> float:
        """Return no time."""
        del begin, end
        return 0.0

    def begin_capture(self, stream: object) -> None:
        """Refuse."""
        raise NotImplementedError

    def end_capture(self, stream: object) -> object:
        """Refuse."""
        raise NotImplementedError

    def replay(self, graph: object, stream: object) -> None:
        """Refuse."""
        raise NotImplementedError
