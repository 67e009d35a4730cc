"""List foreign code: the available code generators, and the modules of an artifact."""

from __future__ import annotations

from collections.abc import Iterator

from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.entries import EntriesModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.programs.dimensions import sizes_text
from rammer_mlir.programs.module_options import text_of
from rammer_mlir.runtime.compiled import REPLACED, RunnableModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.executable import GpuExecutable


def listed_codegens() -> str:
    """Return a text with a line for each code generator, and a line for each of their options.

    The line of a code generator also names the requirements that are missing on this machine. The
    options are those that code generators declare for ``--module-option``.
    """
    from rammer_mlir.passes.regions.codegen import described_codegens
    from rammer_mlir.passes.regions.declared_options import all_options

    lines = [
        f"  {found.name:<20}{found.origin}{': ' if found.problem else ''}{found.problem}"
        for found in described_codegens()
    ]
    options = [
        f"  {name:<28}{option.help} ({option.expected}; "
        f"default: {text_of(option.default) or 'none'})"
        for name, option in all_options().items()
    ]
    listed = "Code generators:", *(lines or ["  none is registered or installed"])
    return "\n".join((*listed, *(["Options (--module-option):", *options] if options else []), ""))


def listed_modules(model: RunnableModel) -> str:
    """Return a line for each module of foreign code in a model, then a line of totals.

    If the model has several programs, the text has these lines for each program, below a heading.
    """
    if isinstance(model, Executable | GpuExecutable):
        return "\n".join(_lines(model))
    listed = ([f"{title}:", *_lines(program)] for title, program in _programs(model))
    return "\n".join(line for lines in listed for line in lines)


def _programs(
    model: RunnableModel, title: str = ""
) -> Iterator[tuple[str, Executable | GpuExecutable]]:
    """Yield, for each program of a model, a heading that names the program, and the program.

    A heading is ``title`` followed by the entry, part or specialization to which the program
    belongs. The heading of a model's only program is ``title`` alone.
    """
    if isinstance(model, Executable | GpuExecutable):
        yield title, model
    elif isinstance(model, EntriesModel):
        for name, each in model.entries.items():
            yield from _programs(each, _joined(title, f"entry '{name}'"))
    elif isinstance(model, HostedModel):
        for number, each in enumerate(model.parts):
            yield from _programs(each, _joined(title, f"part {number}"))
    elif isinstance(model, OpenModel):
        with model.held() as held:
            for sizes, (_, each) in zip(model.specializations, held, strict=True):
                yield from _programs(each, _joined(title, f"specialization {sizes_text(sizes)}"))


def _joined(*titles: str) -> str:
    return ", ".join(filter(None, titles))


def _lines(model: Executable | GpuExecutable) -> Iterator[str]:
    for name in model.stats.get(REPLACED, {}):
        yield f"module '{name}'  replaced by the host's rKernels"
    image, total = model.image, model.stats.get("operations", 0)
    operators = [each.kernel for each in image.program.operators]
    for module in image.modules:
        count = sum(kernel in module.kernels for kernel in operators)
        share = _share(module.operations, total)
        given = "".join(f", {name}={value}" for name, value in module.options)
        grain = ", grain device" if image.proof.exclusive.intersection(module.kernels) else ""
        yield f"module '{module.name}'  {module.form}, {count} rOperators{share}{grain}{given}"
    kernels = {kernel for module in image.modules for kernel in module.kernels}
    foreign = sum(kernel in kernels for kernel in operators)
    share = _share(sum(module.operations for module in image.modules), total)
    yield f"foreign code     {foreign} of {len(operators)} rOperators{share}"
    if isinstance(model, Executable) and model.fallback is not None:
        yield "fallback         the host's rKernels, where code from elsewhere cannot run"


def _share(operations: int, total: int) -> str:
    return f", {operations / total:.1%} of operations" if total else ""
