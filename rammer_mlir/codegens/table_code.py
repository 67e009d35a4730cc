"""Generates a region's C functions for code that is configured by a table of 64-bit integers.

A code generator supplies C files that define ``open_region``, ``run_region`` and ``close_region``.
Each region gets three generated functions (``_open``, ``_run``, ``_close``), which call the three
functions of the C files; ``_open`` passes the region's table. The C files also define
``ask_region``, which returns at compile time how many bytes of memory an rTask of a region needs.
``struct rammer_host``, defined here, gives the C files weights and functions of foreign libraries.
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
    """The memory that an rTask of a region needs, and whether C code can compute the region.

    Attributes:
        status: 0 if the C code can compute the region, otherwise the status that it returned.
        scratch_bytes: bytes of scratch memory per rTask.
        converted_bytes: bytes of inputs and outputs that an rTask copies between layouts.
    """

    status: int
    scratch_bytes: int = 0
    converted_bytes: int = 0


@dataclass(frozen=True)
class TableCode:
    """C files of a code generator; a table of 64-bit integers configures them for a region.

    Attributes:
        module: names the code generator and the packages whose libraries the C files call.
        files: paths of the C files, which are concatenated in this order.
        settings: lines of C with ``#define``, inserted before the files.
    """

    module: CodeModule
    files: tuple[Path, ...]
    settings: str = ""

    def source_of(self, name: str, table: Sequence[int]) -> str:
        """Return C source of the functions ``{name}_open``, ``_run`` and ``_close`` of a region.

        ``table`` describes the region in 64-bit integers, which the C files read.
        """
        return self._runtime() + _ENTRIES.format(name=name, table=", ".join(map(str, table)))

    def ask(self, table: Sequence[int]) -> Needs:
        """Return the memory that an rTask of a region needs; ``table`` describes the region.

        The answer is that of the C function ``ask_region`` in the C files, which are compiled for
        this machine once per process.

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
        """Return C source of ``rammer_ask(host, table, answers)``, the function that ``ask`` calls.

        The source contains this object's C files; ``rammer_ask`` calls their ``ask_region``. It
        returns the status for the region that ``table`` describes, and stores both counts of bytes
        of ``Needs`` in ``answers``. ``host`` is the record that finds functions of libraries.
        """
        return (self._runtime() + _ASK).encode()


@cache
def _asking(code: TableCode) -> tuple[Library, list[ctypes.CDLL]]:
    check_needs([code.module])
    libraries = open_libraries(code.module)
    source = ForeignCode(code.module.name, "c", code.asking_source())
    return load_object(compile_c(source, host_machine())), libraries


def _found(libraries: Sequence[ctypes.CDLL], symbol: bytes) -> int:
    return find_function(libraries, symbol.decode())
