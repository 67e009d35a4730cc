"""Stateful C code that is configured by a table of numbers, one table per region.

The C of a code generator defines ``open_region``, ``run_region`` and ``close_region``, which the
three functions of a region call, and ``ask_region``, which returns a table's needs at compile time.
All of them use ``struct rammer_host``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from rammer_mlir.engines.native import FIND, HostRecord
from rammer_mlir.engines.requirements import check_needs, find_function, open_libraries
from rammer_mlir.lowering.external.c_compiler import compile_c
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.programs.modules import CodeModule

_HOST = """
#include <stdint.h>
struct rammer_host {
  int32_t version, num_buffers;
  void *const *weights;
  void *(*find)(const char *);
};
"""

_ENTRIES = """
static const int64_t table_of_{name}[] = {{{table}}};
int32_t {name}_open(void **state, const struct rammer_host *host) {{
  return open_region((struct state **)state, host, table_of_{name});
}}
int32_t {name}_run(void *state, int64_t rtask, void *const *buffers) {{
  return run_region(state, rtask, buffers);
}}
void {name}_close(void *state) {{ close_region(state); }}
"""

_ASK = """
int32_t rammer_ask(const struct rammer_host *host, const int64_t *table, int64_t *answers) {
  return ask_region(host, table, answers);
}
"""


@dataclass(frozen=True)
class Needs:
    """The memory that an rTask of a region needs, and whether it can be computed.

    Attributes:
        status: 0 if the region can be computed.
        scratch_bytes: bytes of scratch memory.
        converted_bytes: bytes of inputs and outputs that the rTask converts between layouts.
    """

    status: int
    scratch_bytes: int = 0
    converted_bytes: int = 0


@dataclass(frozen=True)
class TableCode:
    """The C files of a code generator, which a table of 64-bit numbers configures for a region.

    Attributes:
        module: the ``CodeModule`` that names the packages that the files need.
        files: the files, concatenated in order.
        settings: C macros before the files.
    """

    module: CodeModule
    files: tuple[Path, ...]
    settings: str = ""

    def source_of(self, name: str, table: Sequence[int]) -> str:
        """Return the C source of the functions of a region ``name``, with its table of words."""
        return self._runtime() + _ENTRIES.format(name=name, table=", ".join(map(str, table)))

    def ask(self, table: Sequence[int]) -> Needs:
        """Return the needs of an rTask of the region with this table, computed by its C code.

        Raises:
            RammerError: if a package or a library is missing.
        """
        asked, libraries = _asking(self)
        find = FIND(partial(_found, libraries))
        host, words = HostRecord(1, 0, None, find), (ctypes.c_int64 * len(table))(*table)
        answers = (ctypes.c_int64 * 2)()
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)
        function = kind(asked.address("rammer_ask"))
        return Needs(function(*map(ctypes.addressof, (host, words, answers))), *answers)

    def _runtime(self) -> str:
        return (
            self.settings + _HOST + "".join(file.read_text(encoding="utf-8") for file in self.files)
        )

    def asking_source(self) -> bytes:
        """Return the C source of a function that returns the needs of any table."""
        return (self._runtime() + _ASK).encode()


@cache
def _asking(code: TableCode) -> tuple[Library, list[ctypes.CDLL]]:
    check_needs([code.module])
    libraries = open_libraries(code.module)
    source = ForeignCode(code.module.name, "c", code.asking_source())
    return load_object(compile_c(source, host_machine())), libraries


def _found(libraries: Sequence[ctypes.CDLL], symbol: bytes) -> int:
    return find_function(libraries, symbol.decode())
