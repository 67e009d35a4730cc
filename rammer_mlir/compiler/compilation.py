"""From a model to an executable: a loop over the stages of its target."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.backends.backend import Code
from rammer_mlir.compiler.caching.programs import ProgramCache
from rammer_mlir.compiler.given import Given
from rammer_mlir.compiler.known_code import KnownCode
from rammer_mlir.compiler.options import CheckedOptions, refuse_samples
from rammer_mlir.compiler.pipeline import applied_costs
from rammer_mlir.compiler.stage import Image, Work, run_stages
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES
from rammer_mlir.compiler.weight_recipes import Recipe
from rammer_mlir.frontends.onnx import ImportedModel, import_model, import_prepared, prepare_any
from rammer_mlir.frontends.onnx.given import Source
from rammer_mlir.frontends.onnx.hosting.partition import HostedGraph
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.lowering.profiling.profiler import profile_kernels
from rammer_mlir.open_models.sharing import ConstantStore
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.program_ir import ScheduledModule, read_plan
from rammer_mlir.passes.program.task_graph import graph_of_operators
from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.programs.signature import Signature
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.planning import executed_plan
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.support.log import LOGGER, log_seconds
from rammer_mlir.timeline.predicted import predicted_timeline
from rammer_mlir.timeline.spans import Timeline


def compile_model(
    source: Source | Model,
    options: CheckedOptions,
    shapes: Shapes | None = None,
    device: int = 0,
    executor: Executor | None = None,
) -> CompiledModel:
    """Compile a model; see ``rammer_mlir.compile``."""
    return _executable(Compilation.of_model(source, options, shapes), device, executor)


def compile_any_model(
    source: Model,
    options: CheckedOptions,
    given: Given,
    device: int = 0,
    executor: Executor | None = None,
    known: KnownCode | None = None,
    programs: ProgramCache | None = None,
) -> CompiledModel | HostedGraph:
    """Compile a loaded model if one static program computes it; else return its host program.

    Args:
        source: stays as it is.
        options: checked.
        given: what it is compiled for.
        device: number of the GPU.
        executor: where rKernels are measured.
        known: code of other parts of the same model.
        programs: where programs for other weights are found and kept.

    Raises:
        RammerError: as ``compile_model`` does.
    """
    _log_begin(options)
    begin = time.perf_counter()
    prepared = prepare_any(source, given.shapes, given.values, is_repeated=given.is_repeated)
    if isinstance(prepared, HostedGraph):
        refuse_samples(options)
        return prepared
    key = None if programs is None else programs.key(prepared)
    if programs is not None and key is not None:
        taken = time.perf_counter() - begin
        found = programs.find(key, prepared)
        if found is not None:
            found.stats["seconds"] = {"preparation": taken, **found.stats["seconds"]}
            return found
    compilation = Compilation.of_import(import_prepared(prepared), options, begin)
    compilation.use_known(known)
    made = _executable(compilation, device, executor)
    if programs is not None and key is not None:
        programs.keep(key, made, compilation.recipes)
    return made


def _executable(compilation: Compilation, device: int, executor: Executor | None) -> CompiledModel:
    if executor is not None:
        compilation.profile(executor)
    return compilation.executable(device)


def _log_begin(options: CheckedOptions) -> None:
    LOGGER.info(
        "compiling for %s, policy %s, %d vEUs",
        options.target, options.policy, options.num_veus,
    )  # fmt: skip


class Compilation:
    """One model on its way through the stages of its target."""

    def __init__(
        self,
        bytecode: bytes,
        constants: Mapping[str, NDArray[np.generic]],
        signature: Signature,
        options: CheckedOptions,
    ) -> None:
        """Begin with IR at the `linalg` stage and the values of its weights."""
        self._begin = bytecode, constants, signature
        self._options, self._backend = options, options.backend
        self._stages = options.backend.stages(options)
        context = ir.Context()
        dialects.register(context)
        with context:
            module = ir.Module.parse(bytecode)
        self._work = Work(module, signature, constants, options, reached=[PORTABLE_STAGES[0]])

    @staticmethod
    def of_model(
        source: Source | Model,
        options: CheckedOptions,
        shapes: Shapes | None = None,
    ) -> Compilation:
        """Import an ONNX model; one that is loaded stays as it is.

        Raises:
            RammerError: if it is not valid, uses what is not supported, or has unknown shapes.
        """
        _log_begin(options)
        begin = time.perf_counter()
        return Compilation.of_import(import_model(source, shapes=shapes), options, begin)

    @staticmethod
    def of_import(imported: ImportedModel, options: CheckedOptions, begin: float) -> Compilation:
        """Begin with an imported model; its import began at a time of ``perf_counter``."""
        compilation = Compilation(
            imported.bytecode, imported.constants, imported.signature, options
        )
        compilation.seconds[PORTABLE_STAGES[0]] = time.perf_counter() - begin
        log_seconds(PORTABLE_STAGES[0], compilation.seconds[PORTABLE_STAGES[0]])
        return compilation

    def use_known(self, known: KnownCode | None) -> None:
        """Take the object of equal code, if there is one, rather than to make it again."""
        self._work.known = known

    @property
    def module(self) -> ir.Module:
        """The IR at the last stage that was reached, if that has some."""
        return self._work.module

    @property
    def recipes(self) -> Mapping[int, Recipe]:
        """How the weights of the program are made, from the stage `target` on."""
        return self._work.recipes

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each stage that was reached."""
        return self._work.seconds

    @property
    def image(self) -> Image:
        """The program's data.

        Raises:
            RammerError: if a stage does not succeed.
        """
        self.run_to("target")
        assert self._work.image is not None
        return self._work.image

    def run_to(self, stage: str) -> None:
        """Go on to a stage, unless it was reached before.

        Raises:
            OptionError: if the target does not have it.
            RammerError: if a stage does not succeed.
        """
        self._backend.check_stage(stage, self._work.options)
        if stage not in self._work.reached:
            run_stages(self._work, self._stages, stage)

    def emit(self, stage: str) -> bytes:
        """Compile up to a stage and return it: IR as text, objects as they are.

        Raises:
            OptionError: if there is no such stage, or the target does not have it.
            TargetError: if a tool that the stage needs is missing or fails.
        """
        self.run_to(stage)
        return self._work.printed()

    def code(self) -> Code:
        """Compile to the last stage.

        Raises:
            TargetError: if a tool fails, or not all vEUs can be resident at once.
        """
        return self._backend.compile(self._work)

    def executable(self, device: int = 0) -> CompiledModel:
        """Compile, and load the code; ``device`` numbers the devices of the target's kind.

        Raises:
            OptionError: if there can be no such device.
            TargetError: if a tool fails, or not all vEUs can be resident at once.
        """
        code = self.code()
        begin = time.perf_counter()
        loaded = self._backend.load(code, device)
        loaded.stats["seconds"] = {**self.seconds, "load": time.perf_counter() - begin}
        loaded.stats["policy"] = self._work.options.policy
        log_seconds("load", loaded.stats["seconds"]["load"])
        self._add_fallback(loaded, device)
        return loaded

    def _add_fallback(self, loaded: CompiledModel, device: int) -> None:
        """Compile the model for the host alone too, if that is wanted and makes a difference."""
        wanted = self._options.given["fallback"] == "host"
        if not wanted or not isinstance(loaded, Executable) or not loaded.image.may_lack:
            return
        LOGGER.info("fallback: compiling for the host alone")
        other = Compilation(*self._begin, self._options.without_foreign_code())
        other.use_known(self._work.known)
        other._work.executor = self._work.executor
        fallback = other.executable(device)
        assert isinstance(fallback, Executable)
        loaded.keep_fallback(fallback)
        ConstantStore().share(loaded)
        loaded.stats["seconds"]["fallback"] = sum(fallback.stats["seconds"].values())

    def profile(self, executor: Executor | None = None) -> int:
        """Measure the rKernels that no measurement is known of; return their number.

        Compiling with measured costs does so by itself, but on no executor.
        """
        self._work.executor = executor
        self.run_to("buffers")
        with self._work.timed("profile"):
            num_veus = self._options.num_veus
            return profile_kernels(self.module, executor=executor, num_veus=num_veus)

    def task_graph(self) -> TaskGraph:
        """Return the tiled rOperators on buffers as what policies schedule."""
        self.run_to("buffers")
        with self.module.context, ir.Location.unknown():
            return graph_of_operators(self.module).graph()

    def _priced_graph(self, passes: tuple[str, ...]) -> TaskGraph:
        """Return the graph behind passes that write costs on rKernels."""
        self.run_to("buffers")
        if passes:
            run_pipeline(self.module, f"builtin.module({','.join(passes)})")
        return self.task_graph()

    def schedule(self) -> ScheduledModule:
        """Compile up to the `program` stage, and read the schedule back; lowering erases it."""
        self.run_to("program")
        with self.module.context, ir.Location.unknown():
            return read_plan(self.module)

    def predict(self, policies: Sequence[str] = ()) -> list[Timeline]:
        """Simulate the program, then what other policies make of the same rOperators.

        Raises:
            OptionError: if there is no such policy.
        """
        for name in policies:
            get_policy(name)
        options = self._work.options
        device = find_device(options.device).device(options.num_veus)
        if options.measured:
            self.profile()
        graph = self._priced_graph(applied_costs(options))
        own = self.schedule()
        with self.module.context, ir.Location.unknown():
            runs = [(options.policy, own.builder.graph(), own.plan)]
        if options.fold_to:  # what is executed here is not what the device would execute
            runs, policies = [], (options.policy, *policies)
        for name in policies:
            runs.append((name, graph, executed_plan(get_policy(name), graph, device)))
        place = f"predicted on '{device.name}' with {device.num_veus} vEUs"
        return [
            predicted_timeline(graph, plan, device, f"{name}, {place}")
            for name, graph, plan in runs
        ]
