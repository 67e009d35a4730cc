"""Report registers and spills of GPU code: ``python -m rammer_mlir.benchmarks.gpu.code``.

No GPU is needed: ptxas assembles the PTX and reports registers and spills, and the linker refuses
an hsaco with an undefined symbol. Every model is compiled in a separate process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import LIGHT, TABLE_1, Scale, build
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import RammerError
from rammer_mlir.lowering.nvvm.ptxas import assemble
from rammer_mlir.lowering.rocdl.hsaco import read_resources

NVIDIA = ("sm_80", "sm_90")
AMD = ("gfx90a", "gfx942")

_LONGEST = 1800.0
"""Time limit in seconds for a model."""


@dataclass(frozen=True)
class CodeReport:
    """Size and resources of the code of a model for a chip.

    Attributes:
        seconds: compile time, from the ONNX model to the binary.
        text_bytes: size of the PTX in bytes; 0 on AMD.
        binary_bytes: size of the cubin or the hsaco in bytes.
        registers: registers per thread, as ptxas or the code object's metadata report them.
        spill_bytes: bytes of spill stores and loads per thread.
        error: the error in one line, empty if there is none.
    """

    model: str
    chip: str
    seconds: float = 0.0
    text_bytes: int = 0
    binary_bytes: int = 0
    registers: int = 0
    spill_bytes: int = 0
    error: str = ""


def compile_for_gpu(model: str, chip: str, scale: Scale = "full") -> CodeReport:
    """Compile a model by the policy `wavefront` for a chip; return the code's size and resources.

    The number of vEUs is the default for the chip.
    """
    begin = time.perf_counter()
    try:
        target = f"{'nvvm' if chip in NVIDIA else 'rocdl'}:{chip}"
        compilation = Compilation.of_model(
            build(model, scale=scale), check_options(target, policy="wavefront", num_veus=None)
        )
        if chip in AMD:
            ptx, binary = b"", compilation.emit("hsaco")
            found = read_resources(binary)
        else:
            ptx = compilation.emit("ptx")
            assembled = assemble(ptx.decode(), chip)
            binary, found = assembled.cubin, assembled.resources
    except RammerError as error:
        return CodeReport(model, chip, error=str(error))
    return CodeReport(
        model,
        chip,
        seconds=time.perf_counter() - begin,
        text_bytes=len(ptx),
        binary_bytes=len(binary),
        registers=found.registers,
        spill_bytes=found.spill_store_bytes + found.spill_load_bytes,
    )


def _compile(request: tuple[str, str, Scale]) -> CodeReport:
    return compile_for_gpu(*request)


def report(found: Sequence[CodeReport]) -> str:
    """Return a Markdown table with a row for each model and chip."""
    rows = [["model", "chip", "seconds", "PTX kB", "binary kB", "registers", "spills", "error"]]
    for code in found:
        rows.append(
            [
                code.model,
                code.chip,
                f"{code.seconds:.1f}",
                f"{code.text_bytes / 1e3:.0f}" if code.text_bytes else "",
                "" if code.error else f"{code.binary_bytes / 1e3:.0f}",
                "" if code.error else str(code.registers),
                "" if code.error else str(code.spill_bytes),
                code.error,
            ]
        )
    return table(rows)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the models, print the table and write it to a file; return 1 if a model failed."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.gpu.code", description=__doc__
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[*TABLE_1, *LIGHT])
    parser.add_argument("--chips", nargs="+", choices=(*NVIDIA, *AMD), default=[*NVIDIA, *AMD])
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    parser.add_argument("--output", type=Path, default=Path("build/gpu_code.md"))
    options = parser.parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    found: list[CodeReport] = []
    for model in options.models:
        for chip in options.chips:
            print(f"{model} for {chip} ...", end=" ", file=sys.stderr, flush=True)
            answer = in_child(_compile, (model, chip, options.scale), _LONGEST)
            if isinstance(answer, Failure):
                answer = CodeReport(model, chip, error=answer.message)
            found.append(answer)
            print(answer.error or f"{answer.seconds:.1f} s", file=sys.stderr, flush=True)
            options.output.write_text(report(found) + "\n", encoding="utf-8")
    print(report(found))
    return 1 if any(code.error for code in found) else 0


if __name__ == "__main__":
    sys.exit(main())
