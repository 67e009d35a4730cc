"""Models of static shapes, and those with open dimensions, whose programs follow later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from math import prod

from rammer_mlir.compiler.cache import CachedCompiler
from rammer_mlir.compiler.options import CheckedOptions
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.load import Source, load
from rammer_mlir.frontends.onnx.local_functions import inline_local_functions
from rammer_mlir.frontends.onnx.model import Model, first_line
from rammer_mlir.frontends.onnx.open_inputs import (
    Fixed,
    check_symbols,
    fix_inputs,
    open_signature,
    require_fixed,
)
from rammer_mlir.frontends.onnx.refusals import refuse_for_all_sizes
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.sharing import ConstantStore
from rammer_mlir.options import DEFAULT_SPECIALIZATIONS
from rammer_mlir.programs.dimensions import (
    PYTHON,
    OpenSignature,
    Shape,
    Shapes,
    Sizes,
    Wording,
    bind,
    sizes_text,
)
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.support.log import LOGGER


@dataclass(frozen=True)
class Request:
    """A model to compile, and how.

    Attributes:
        source: the model.
        options: checked.
        shapes: static shapes of inputs, by name.
        dims: sizes of open dimensions, by symbol.
        device: number of the GPU.
        executor: where rKernels are measured.
        cached: whether the user's cache is asked, and keeps what is compiled.
        wording: of the interface that the user speaks.
    """

    source: Source
    options: CheckedOptions
    shapes: Shapes = field(default_factory=dict[str, Shape])
    dims: Sizes = field(default_factory=dict[str, int])
    device: int = 0
    executor: Executor | None = None
    cached: bool = True
    wording: Wording = PYTHON

    def load(self) -> tuple[Model, Fixed]:
        """Return the model with the given sizes in its inputs, and its open signature.

        Raises:
            RammerError: if it cannot be read, or the sizes contradict it.
        """
        model = load(self.source)
        return model, fix_inputs(model, self.shapes, self.dims, self.wording)

    def load_fixed(self) -> tuple[Model, Shapes]:
        """Return the model and the shapes of its inputs that were open.

        Raises:
            RammerError: as ``load`` does, or if a dimension is open.
        """
        model, fixed = self.load()
        require_fixed(fixed.signature, self.wording)
        return model, fixed.shapes

    def compiler(self) -> CachedCompiler:
        """Return what compiles the model for static shapes."""
        return CachedCompiler(
            self.source, self.options, self.device, self.executor, cached=self.cached
        )


def compile_any(
    request: Request, specializations: int = DEFAULT_SPECIALIZATIONS
) -> CompiledModel | OpenModel:
    """Compile a model, or prepare to compile what its open dimensions will be bound to.

    Raises:
        RammerError: for what no sizes of the open dimensions would mend.
    """
    try:
        return _compile_any(request, specializations)
    except MemoryError as error:
        raise UnsupportedError(
            f"compiling takes more memory than there is ({first_line(error)}): expected smaller "
            "shapes or constants"
        ) from error


def _compile_any(request: Request, specializations: int) -> CompiledModel | OpenModel:
    compiler = request.compiler()
    # Ask before the model is parsed: cached programs have no open dimensions.
    found = None if request.dims else compiler.find(request.shapes)
    if found is not None:
        return found
    model, fixed = request.load()
    signature, shapes = fixed.signature, fixed.shapes
    if not signature.is_open:
        found = None if shapes == request.shapes else compiler.find(shapes)
        return found or compiler.compile(model, shapes)
    _refuse_unsupported(model)
    return OpenModel(
        signature, _Compiling(model, compiler, shapes, request.options), specializations
    )


def compile_for(request: Request, sizes: Mapping[str, Sequence[int]]) -> CompiledModel | OpenModel:
    """Compile a model ahead: for the only size of each open dimension, or all combinations.

    Raises:
        ShapeError: if dimensions are unknown, or stay open.
        RammerError: if the model cannot be compiled.
    """
    single = {symbol: each[0] for symbol, each in sizes.items() if len(each) == 1}
    several = {symbol: each for symbol, each in sizes.items() if len(each) > 1}
    made = compile_any(replace(request, dims=single), prod(map(len, several.values())))
    opened = made.signature if isinstance(made, OpenModel) else OpenSignature((), ())
    check_symbols(opened, several, request.wording)
    require_fixed(opened.with_sizes(dict.fromkeys(several, 0)), request.wording)
    if isinstance(made, OpenModel):
        made.prepare(dims=several)
    return made


def _refuse_unsupported(model: Model) -> None:
    model = model.copy()
    inline_local_functions(model)
    refuse_for_all_sizes(model)


@dataclass(frozen=True)
class _Compiling:
    """Compiles the specialisations of a model.

    Attributes:
        model: with open dimensions.
        compiler: for static shapes.
        fixed: shapes of inputs that are no longer open, by which the cache knows a program.
        options: of all compilations.
        weights: of all specialisations in memory.
    """

    model: Model
    compiler: CachedCompiler
    fixed: Mapping[str, Shape]
    options: CheckedOptions
    weights: ConstantStore = field(default_factory=ConstantStore)

    @property
    def target(self) -> str:
        """The target of all programs."""
        return self.options.backend.target

    @property
    def policy(self) -> str:
        """The policy of all programs."""
        return self.options.policy

    @property
    def num_veus(self) -> int:
        """The vEUs of all programs."""
        return self.options.launched_veus

    def make(self, shapes: Shapes) -> CompiledModel:
        """Return the program for inputs of these shapes.

        Raises:
            RammerError: if the model cannot be compiled for them.
        """
        signature = open_signature(self.model)
        sizes = bind(signature, shapes).sizes
        LOGGER.info("specialisation for %s", sizes_text(sizes))
        opened = [t.name for t in signature.inputs if t.symbols or t.shape is None]
        given = {**self.fixed, **{name: shapes[name] for name in opened}}
        made = self.compiler.find(given) or self.compiler.compile(self.model, given)
        self.weights.share(made)
        return made
