"""From a model to an executable: a loop over the stages of its target."""

from __future__ import annotations

import io
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.backends.backend import Code
from rammer_mlir.compiler.caching.programs import ProgramCache
from rammer_mlir.compiler.known_code import NOTHING_KNOWN, KnownCode, KnownObjects
from rammer_mlir.compiler.options import CheckedOptions, refuse_samples
from rammer_mlir.compiler.pipeline import applied_costs
from rammer_mlir.compiler.specialization_inputs import Given
from rammer_mlir.compiler.stage import Image, Work, run_stages
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES, REGIONS
from rammer_mlir.compiler.values import with_values
from rammer_mlir.compiler.weight_recipes import Recipe
from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.explanation.explain import EXPLAINED_POLICIES, Explanation
from rammer_mlir.explanation.limits import limits_of
from rammer_mlir.explanation.losses import losses
from rammer_mlir.frontends.mlir.load import refuse
from rammer_mlir.frontends.onnx import ImportedModel, import_model, import_prepared, prepare_any
from rammer_mlir.frontends.onnx.hosting.partition import HostedGraph
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.source_folders import Source
from rammer_mlir.lowering.profiling.profiler import profile_kernels
from rammer_mlir.open_models.constant_sharing import ConstantStore
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.program_ir import ScheduledModule, read_plan
from rammer_mlir.passes.program.task_graph import graph_of_operators
from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.programs.gpu_image import GpuCode
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.planning import executed_plan
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.replay import simulate_repeated
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
    known: KnownObjects = NOTHING_KNOWN,
    programs: ProgramCache | None = None,
) -> CompiledModel | HostedGraph:
    """Compile a loaded model if one static program computes it; else return its host program.

    Args:
        source: stays as it is.
        options: checked.
        given: what it is compiled for.
        device: number of the GPU.
        executor: where rKernels are measured.
        known: objects of other programs.
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

    def __init__(self, begin: ImportedModel, options: CheckedOptions) -> None:
        """Begin with IR at a stage, `linalg` or a later one, and the values of its weights.

        Raises:
            OptionError: if the target does not have the stage.
        """
        options.backend.check_stage(begin.stage, options)
        self._begin = begin
        self._options, self._backend = options, options.backend
        self._stages = options.backend.stages(options)
        context = ir.Context()
        dialects.register(context)
        with context:
            module = ir.Module.parse(begin.bytecode)
        names = options.backend.emits(options)
        reached = list(names[: names.index(begin.stage) + 1])
        self._work = Work(module, begin.signature, begin.constants, options, reached=reached)

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
        compilation = Compilation(imported, options)
        compilation.seconds[imported.stage] = time.perf_counter() - begin
        log_seconds(imported.stage, compilation.seconds[imported.stage])
        return compilation

    def use_known_kernels(self, known: KnownCode[GpuCode]) -> None:
        """Take an NVIDIA GPU's kernel of equal LLVM IR, rather than to compile it again."""
        self._work.known_kernels = known

    def use_known(self, known: KnownObjects) -> None:
        """Take objects of equal code, if there are some, rather than to make them again."""
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
            with self._places():
                run_stages(self._work, self._stages, stage)

    def emit(self, stage: str) -> bytes:
        """Compile up to a stage and return it: IR as text, objects as they are.

        Raises:
            OptionError: if there is no such stage, or the target does not have it.
            TargetError: if a tool that the stage needs is missing or fails.
        """
        self.run_to(stage)
        return self._work.printed()

    def emit_whole(self, stage: str, *, as_bytecode: bool = False) -> bytes:
        """Compile up to a stage of IR and return it with the values of all weights.

        ``rammer_mlir.compile`` takes it up again: nothing has to lie beside it.

        Args:
            stage: one of those that every target has, or `regions`.
            as_bytecode: whether bytecode is wanted, which is smaller and read faster, else text.

        Raises:
            OptionError: if the stage is not IR of the portable stages.
            RammerError: as ``emit`` does.
        """
        if stage not in (REGIONS, *PORTABLE_STAGES):
            raise OptionError(
                f"stage '{stage}': expected one of {REGIONS}, {', '.join(PORTABLE_STAGES)} with "
                "values of weights, found a later one; leave the values out"
            )
        self.run_to(stage)
        whole = with_values(self.module, self._work.constants)
        if not as_bytecode:
            return dialects.get_asm(whole).encode()
        buffer = io.BytesIO()
        whole.operation.write_bytecode(buffer)
        return buffer.getvalue()

    def code(self) -> Code:
        """Compile to the last stage.

        Raises:
            TargetError: if a tool fails, or not all vEUs can be resident at once.
        """
        self._work.is_separate = True
        with self._places():
            return self._backend.compile(self._work)

    @contextmanager
    def _places(self) -> Generator[None]:
        """Let errors name their places in the module's file."""
        try:
            yield
        except PassError as error:
            if not self._begin.file:
                raise
            refuse(error, self._begin.file)

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
        other = Compilation(self._begin, self._options.without_foreign_code())
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
        with self._work.timed("profile"), self._places():
            num_veus = self._options.num_veus
            return profile_kernels(self.module, executor=executor, num_veus=num_veus)

    def task_graph(self) -> TaskGraph:
        """Return the tiled rOperators on buffers as what policies schedule."""
        self.run_to("buffers")
        with self.module.context, ir.Location.unknown():
            return graph_of_operators(self.module).graph()

    def _priced_graph(self, passes: tuple[str, ...]) -> TaskGraph:
        """Return the graph after passes that write costs on rKernels."""
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
        device = self._device()
        place = f"predicted on '{device.name}' with {device.num_veus} vEUs"
        return [
            predicted_timeline(graph, plan, device, f"{name}, {place}")
            for name, graph, plan in self._runs(policies)
        ]

    def explain(
        self, measured: Timeline | None = None, policies: Sequence[str] = EXPLAINED_POLICIES
    ) -> Explanation:
        """Say what limits the program, where it loses time, and what other policies would gain.

        Args:
            measured: a recorded run of the program; the simulated one if none is given.
            policies: those that are simulated beside the program's own.

        Raises:
            OptionError: if there is no such policy.
        """
        own = self._work.options.policy
        device = self._device()
        (_, graph, plan), *others = self._runs([name for name in policies if name != own])
        place = f"'{device.name}' with {device.num_veus} vEUs"
        simulated = predicted_timeline(graph, plan, device, f"{own}, predicted on {place}")
        timeline = measured or simulated
        seconds = {
            name: simulate_repeated(other, other_plan, device).seconds
            for name, other, other_plan in others
        }
        return Explanation(
            timeline.title,
            limits_of(graph, plan, device, timeline),
            losses(graph, plan, device, timeline),
            own,
            {own: simulated.seconds, **seconds},
        )

    def _device(self) -> Device:
        options = self._work.options
        return find_device(options.device).device(options.num_veus)

    def _runs(self, policies: Sequence[str]) -> list[tuple[str, TaskGraph, Plan]]:
        """Return the program's plan and those of other policies, each with its rOperators."""
        for name in policies:
            get_policy(name)
        options = self._work.options
        if options.measured:
            self.profile()
        graph = self._priced_graph(applied_costs(options))
        own = self.schedule()
        with self.module.context, ir.Location.unknown():
            runs = [(options.policy, own.builder.graph(), own.plan)]
        if options.fold_to:  # what is executed here is not what the device would execute
            runs, policies = [], (options.policy, *policies)
        device = self._device()
        for name in policies:
            runs.append((name, graph, executed_plan(get_policy(name), graph, device)))
        return runs
