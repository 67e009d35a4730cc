"""Compiles models: immediately if all shapes are static, else when open dimensions get sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from rammer_mlir.compiler.cache import CachedCompiler
from rammer_mlir.compiler.options import CheckedOptions
from rammer_mlir.compiler.program_facts import ProgramFacts
from rammer_mlir.compiler.requests import AnySource
from rammer_mlir.compiler.specialization_inputs import Given
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.mlir.sources import MlirSource
from rammer_mlir.frontends.onnx.hosting.partition import HostedGraph
from rammer_mlir.frontends.onnx.hosting.parts import Part
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.model import Model, first_line
from rammer_mlir.frontends.onnx.open_inputs import (
    Fixed,
    check_symbols,
    fix_inputs,
    open_signature,
    require_fixed,
)
from rammer_mlir.frontends.onnx.prepare import refuse_size_independent_errors
from rammer_mlir.frontends.onnx.source_folders import Source
from rammer_mlir.hosted_models.model import HostedModel, prepared
from rammer_mlir.open_models.constant_sharing import ConstantStore
from rammer_mlir.open_models.entries import EntriesModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.specializer import Made
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
from rammer_mlir.runtime.compiled import Array, CompiledModel, RunnableModel
from rammer_mlir.support.log import LOGGER

if TYPE_CHECKING:
    from rammer_mlir.compiler.compilation import Compilation
    from rammer_mlir.compiler.mlir_models import MlirRequest

AnyModel = CompiledModel | OpenModel | HostedModel | EntriesModel
"""Kinds of compiled models."""


@dataclass(frozen=True)
class Request:
    """A model to compile, with its options.

    Attributes:
        source: the model.
        options: checked options.
        shapes: static shapes of inputs, by name.
        dims: sizes of open dimensions, by their name in the model.
        device: index of the GPU.
        executor: runs measurements of rKernels; None measures in this process.
        cached: whether to look up and store programs in the user's cache.
        wording: whether messages spell options as in Python or as on the command line.
    """

    source: AnySource
    options: CheckedOptions
    shapes: Shapes = field(default_factory=dict[str, Shape])
    dims: Sizes = field(default_factory=dict[str, int])
    device: int = 0
    executor: Executor | None = None
    cached: bool = True
    wording: Wording = PYTHON

    def of_module(self) -> MlirRequest | None:
        """Return the request for an MLIR module; None for an ONNX model."""
        if not isinstance(self.source, MlirSource):
            return None
        # The compiler's own packages take a while to import.
        from rammer_mlir.compiler.mlir_models import MlirRequest

        return MlirRequest(
            self.source, self.options, self.shapes, self.dims, self.device, self.executor,
            self.cached, self.wording,
        )  # fmt: skip

    def compilation(self) -> Compilation:
        """Return the compilation of the model; all of its shapes must be static.

        Raises:
            RammerError: if the model cannot be read or compiled, or a dimension is open.
        """
        module = self.of_module()
        if module is not None:
            return module.compilation()
        from rammer_mlir.compiler.compilation import Compilation

        model, shapes = self.load_fixed()
        return Compilation.of_model(model, self.options, shapes)

    def load(self) -> tuple[Model, Fixed]:
        """Load the model, and bind open dimensions to the request's shapes and sizes.

        Returns:
            The model; and its inputs and outputs after the binding, in which some dimensions may
            still be open.

        Raises:
            RammerError: if the model cannot be read, or contradicts the shapes or sizes.
        """
        model = load(self._onnx)
        return model, fix_inputs(model, self.shapes, self.dims, self.wording)

    def load_fixed(self) -> tuple[Model, Shapes]:
        """Return the model, and static shapes by name for its inputs with open dimensions.

        Raises:
            RammerError: as ``load`` does, or if a dimension is still open.
        """
        model, fixed = self.load()
        if fixed.signature.is_open:
            refuse_size_independent_errors(model)
        require_fixed(fixed.signature, self.wording)
        return model, fixed.shapes

    def compiler(self) -> CachedCompiler:
        """Return the compiler that compiles the ONNX model for static shapes of its inputs.

        The compiler uses the cache if ``cached`` is set.
        """
        return CachedCompiler(
            self._onnx, self.options, self.device, self.executor, cached=self.cached
        )

    @property
    def _onnx(self) -> Source:
        assert not isinstance(self.source, MlirSource), "another front end is for it"
        return self.source


def compile_any(request: Request, specializations: int = DEFAULT_SPECIALIZATIONS) -> AnyModel:
    """Compile a model, or return a model that is compiled when its open dimensions are bound.

    A model with open dimensions keeps at most ``specializations`` programs in memory.

    Raises:
        RammerError: for every error that does not depend on the sizes of open dimensions.
    """
    try:
        module = request.of_module()
        if module is not None:
            return module.compile(specializations)
        return _compile_any(request, specializations)
    except MemoryError as error:
        raise UnsupportedError(
            f"compiling takes more memory than there is ({first_line(error)}): expected smaller "
            "shapes or constants"
        ) from error


def _compile_any(request: Request, specializations: int) -> AnyModel:
    compiler = request.compiler()
    # Look up before parsing: cached programs have no open dimensions.
    found = None if request.dims else compiler.find(Given(request.shapes))
    if found is not None:
        return found
    model, fixed = request.load()
    signature, shapes = fixed.signature, fixed.shapes
    compiling = Compiling(
        model, compiler, request.options, signature, shapes, specializations=specializations
    )
    if not signature.is_open or not has_tensors_only(signature):
        is_asked = not request.dims and shapes == request.shapes
        found = None if is_asked else compiler.find(Given(shapes))
        return found or compiling.compile_anew(Given(shapes))
    refuse_size_independent_errors(model)
    return OpenModel(signature, compiling, specializations)


def compile_for(
    request: Request, sizes: Mapping[str, Sequence[int]], most: int | None = None
) -> AnyModel:
    """Compile a model in advance for all combinations of the given sizes, and return it.

    Args:
        request: the model.
        sizes: one or several sizes for each open dimension.
        most: upper bound, in elements, of each dimension whose size depends on data; None if the
            user gives none.

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
    for problem in prepared(made, most):
        LOGGER.warning("a part is left out: %s", problem)
    return made


def has_tensors_only(signature: OpenSignature) -> bool:
    """Whether all inputs are tensors; sequences and optional values need a host program."""
    return all(tensor.is_tensor for tensor in signature.inputs)


@dataclass(frozen=True)
class Compiling(ProgramFacts):
    """Compiles the specializations of a model with open dimensions.

    Attributes:
        model: the model with open dimensions.
        compiler: compiler for static shapes.
        options: options of all compilations.
        signature: the model's signature.
        fixed: shapes of inputs, by name, that the request gives; part of a program's cache key.
        is_repeated: whether the model is the body of a loop, or within the body of a loop.
        specializations: limit of specializations in memory for each part of a host program.
        weights: store through which all specializations and their parts share equal weights.
    """

    model: Model
    compiler: CachedCompiler
    options: CheckedOptions
    signature: OpenSignature
    fixed: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    is_repeated: bool = False
    specializations: int = DEFAULT_SPECIALIZATIONS
    weights: ConstantStore = field(default_factory=ConstantStore)

    def make(self, shapes: Shapes, values: Mapping[str, Array]) -> RunnableModel:
        """Return the program for these input shapes.

        ``values`` are the inputs, by name, on which shapes depend: they become constants.

        Raises:
            RammerError: if the model cannot be compiled for these shapes.
        """
        sizes = bind(self.signature, shapes).sizes
        LOGGER.info("specialization for %s", sizes_text(sizes))
        opened = [t.name for t in self.signature.inputs if t.symbols or t.shape is None]
        given = {n: shapes[n] for n in opened if n in shapes and n not in values}
        return self._compile_sharing(Given({**self.fixed, **given}, values, self.is_repeated))

    def compile(self, given: Given) -> CompiledModel | HostedModel:
        """Return the program for given shapes and values, compiled or taken from the cache.

        Raises:
            RammerError: if the model cannot be compiled for these shapes.
        """
        return self.compiler.find(given) or self.compile_anew(given)

    def compile_anew(self, given: Given) -> CompiledModel | HostedModel:
        """Compile for given shapes and values after a cache miss, and return the program.

        Raises:
            RammerError: if the model cannot be compiled for these shapes.
        """
        made = self.compiler.compile(self.model, given)
        return self._hosted(made, given) if isinstance(made, HostedGraph) else made

    def _compile_sharing(self, given: Given) -> RunnableModel:
        """Compile the model for the input shapes and values ``given``, and return the program.

        The program shares equal weights in memory with the model's other programs.
        """
        made = self.compile(given)
        if isinstance(made, CompiledModel):
            self.weights.share(made)
        return made

    def _hosted(self, graph: HostedGraph, given: Given) -> HostedModel:
        """Return a host program: a list of steps in Python, which may call parts of the model.

        A part that has static shapes and is executed in every run is compiled now. Any other part
        becomes an open model, compiled at its first use, or a host program.

        ``graph`` has the host's steps, and the parts as models. ``given`` has the shapes and values
        that the program is specialized for.
        """
        LOGGER.info("host program of %d steps", len(graph.program.steps))
        parts = [self._part(part, given, number) for number, part in enumerate(graph.parts)]
        made = Made(self.target, self.policy, self.num_veus)
        signature = open_signature(self.model)
        # Shapes may be bound now; the types of sequences are those of the request.
        types = {t.name: t.host_type for t in self.signature.inputs}
        inputs = tuple(
            replace(t, host_type=types.get(t.name))
            for t in signature.inputs
            if t.name not in given.values
        )
        return HostedModel(replace(signature, inputs=inputs), graph.program, parts, made)

    def _part(self, part: Part, given: Given, number: int) -> RunnableModel:
        signature = _of_part(open_signature(part.model), part.shape_values)
        compiling = replace(
            self,
            model=part.model,
            compiler=self.compiler.of_part(given, number),
            signature=signature,
            fixed={},
            is_repeated=part.is_repeated,
        )
        is_static = part.is_eager and not signature.is_open
        if is_static or not has_tensors_only(signature):
            return compiling._compile_sharing(Given({}, {}, part.is_repeated))
        if not part.is_eager and not part.is_repeated:
            graph = compiling.compiler.open_host_program(part.model)
            if graph is not None:
                return compiling._hosted(graph, Given({}))
        return OpenModel(signature, compiling, self.specializations)


def _of_part(signature: OpenSignature, shape_values: tuple[str, ...]) -> OpenSignature:
    """Return the signature of a part of a model, whose inputs are checked where the model begins.

    Inferred types of sequences may be too narrow: iterations of a loop may append elements of other
    shapes. ``shape_values`` are the names of the inputs whose values determine shapes.
    """
    inputs = tuple(replace(tensor, host_type=None) for tensor in signature.inputs)
    return replace(signature, inputs=inputs, shape_values=shape_values)
