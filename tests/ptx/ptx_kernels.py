"""Helpers that run hand-written PTX on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ptx_interpreter.grid import launch
from ptx_interpreter.memory import READABLE, WRITABLE, Memory
from ptx_interpreter.parser import parse

Array = NDArray[Any]

_TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(PARAMETERS)
.maxntid 1024, 1, 1
{
  .reg .pred %p<100>;
  .reg .b16 %h<100>;
  .reg .b32 %r<100>;
  .reg .b64 %d<100>;
  .shared .align 16 .b8 shared[SHARED];
BODY
  ret;
}
"""


def execute(
    body: str,
    arguments: Sequence[Array],
    *,
    threads: int = 64,
    blocks: int = 1,
    shared: int = 1024,
    unwritten: Sequence[int] = (),
) -> list[Array]:
    """Execute the body of a kernel on copies of arrays; return the arrays' final contents.

    Before the body, ``%d0``, ``%d1`` and so on are the arguments' addresses, ``%r0`` is the index
    of the thread in its block, and ``%d90`` is four times that index.

    Args:
        body: PTX instructions.
        arguments: initial contents of the buffers.
        threads: number of threads of a block.
        blocks: number of blocks.
        shared: size in bytes of the variable ``shared``.
        unwritten: indices of the arguments whose initial content counts as undefined.
    """
    names = [f"p{n}" for n in range(len(arguments))]
    loads = [f"ld.param.b64 %d{n}, [{name}];" for n, name in enumerate(names)]
    loads += ["mov.u32 %r0, %tid.x;", "mul.wide.u32 %d90, %r0, 4;"]
    text = (
        _TEXT.replace("PARAMETERS", ", ".join(f".param .u64 {name}" for name in names))
        .replace("SHARED", str(shared))
        .replace("BODY", "\n".join([*loads, body]))
    )
    memory = Memory(0x7A00_0000_0000, 1 << 20)
    addresses: list[int] = []
    for number, array in enumerate(arguments):
        state = WRITABLE if number in unwritten else WRITABLE | READABLE
        buffer = memory.place(f"argument {number}", array.nbytes, state)
        memory.slice(buffer.begin, array.nbytes)[:] = np.frombuffer(array.tobytes(), np.uint8)
        addresses.append(buffer.begin)
    launch(parse(text), "k", memory, addresses, blocks, threads, {})
    return [
        np.frombuffer(memory.slice(address, array.nbytes).tobytes(), array.dtype).reshape(
            array.shape
        )
        for address, array in zip(addresses, arguments, strict=True)
    ]


def per_thread(instruction: str, *inputs: Array, out: Any = np.uint32) -> Array:
    """Execute an instruction on arrays, an element for each thread; return the results.

    In ``instruction``, ``$to`` stands for the result, and ``$0``, ``$1`` and so on for the elements
    of ``inputs``, in registers of their sizes. ``out`` is the type of the results.
    """
    threads = len(inputs[0])
    result = np.zeros(threads, out)
    names = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}
    body: list[str] = []
    for number, array in enumerate(inputs):
        size = array.dtype.itemsize
        name = f"{names[size]}{number + 20}"
        body += [
            f"mad.wide.u32 %d50, %r0, {size}, %d{number};",
            f"ld.global.b{8 * size} {name}, [%d50];",
        ]
        instruction = instruction.replace(f"${number}", name)
    size = result.dtype.itemsize
    to = f"{names[size]}60"
    body += [
        instruction.replace("$to", to),
        f"mad.wide.u32 %d50, %r0, {size}, %d{len(inputs)};",
        f"st.global.b{8 * size} [%d50], {to};",
    ]
    return execute("\n".join(body), [*inputs, result], threads=threads)[-1]
