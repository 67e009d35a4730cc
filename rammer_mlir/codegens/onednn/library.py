"""The library of oneDNN: whether it is installed, and what it says of a region."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from rammer_mlir.engines.needs import check_needs, find_function, open_libraries
from rammer_mlir.errors import RammerError, TargetError
from rammer_mlir.lowering.external.c_compiler import compile_c
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.programs.module_options import Value
from rammer_mlir.programs.modules import CodeModule, Requirement

NEED = Requirement("onednn-cpu-gomp", "2023.2.0", "/libdnnl.so.3", "offload-onednn")
"""The C code has numbers of this version's enumerations."""

MODULE = CodeModule("onednn", "c", needs=(NEED,))

_NO_FUNCTION = 100

MATH = {"strict": 0, "bf16": 1, "f16": 2, "any": 3, "tf32": 4}
"""The library's numbers of the ways in which products of f32 may be rounded."""

_ENTRIES = """
static const int64_t table_of_{name}[] = {{{table}}};
int32_t {name}_open(void **state, const struct rammer_host *host) {{
  return open_region((struct state **)state, host, table_of_{name});
}}
int32_t {name}_run(void *state, int64_t rtask, void *const *buffers) {{
  return run_region(state, buffers);
}}
void {name}_close(void *state) {{ close_region(state); }}
"""

_ASK = """
int64_t rammer_ask(void *(*find)(const char *), const int64_t *table) {
  struct rammer_host host = {1, 0, NULL, find};
  struct state *state;
  int32_t status = open_region(&state, &host, table);
  if (status) return -status;
  int64_t needed = state->needed;
  return close_region(state), needed;
}
"""

_FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)


@cache
def _runtime() -> str:
    folder = Path(__file__).parent
    return "".join(Path(folder, name).read_text(encoding="utf-8") for name in ("build.c", "run.c"))


def settings_of(options: Mapping[str, Value]) -> str:
    """Return the C macros of the options; none for their defaults."""
    threads, math = options.get("threads", 1), MATH[str(options.get("math", "strict"))]
    lines = f"#define THREADS {threads}\n" if threads != 1 else ""
    return lines + (f"#define MATH {math}\n" if math else "")


def source_of(name: str, table: Sequence[int], settings: str = "") -> str:
    """Return C source of the functions of a region."""
    return settings + _runtime() + _ENTRIES.format(name=name, table=", ".join(map(str, table)))


def missing() -> str | None:
    """Return what is expected of the library and what is found; None if it can be called."""
    try:
        check_needs([MODULE])
        open_libraries(MODULE)
    except RammerError as error:
        return str(error).partition("expected ")[2]
    return None


@cache
def asking(settings: str = "") -> tuple[Library, list[ctypes.CDLL]]:
    check_needs([MODULE])
    libraries = open_libraries(MODULE)
    code = ForeignCode("onednn", "c", (settings + _runtime() + _ASK).encode())
    return load_object(compile_c(code, host_machine())), libraries


def scratch_bytes(table: Sequence[int], settings: str = "") -> int | None:
    """Ask the library for the scratch of a region; None if it does not compute the region well.

    Raises:
        RammerError: if the library is missing, or is another one.
    """
    asked, libraries = asking(settings)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, _FIND, ctypes.c_void_p)
    find = _FIND(partial(_found, libraries))
    words = (ctypes.c_int64 * len(table))(*table)
    answer = kind(asked.address("rammer_ask"))(find, ctypes.addressof(words))
    if answer == -_NO_FUNCTION:
        raise TargetError(
            f"code generator 'onednn': expected all functions of {NEED.library} {NEED.version}, "
            f"found fewer; install it again with 'pip install rammer-mlir[{NEED.extra}]'"
        )
    return answer if answer >= 0 else None


def _found(libraries: Sequence[ctypes.CDLL], symbol: bytes) -> int:
    return find_function(libraries, symbol.decode())
