"""Compiles a model to an executable by running the stages of its target in order."""

from __future__ import annotations

import io
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.backends.backend import Code
from rammer_mlir.compiler.caching.preparations import ProgramLookup
from rammer_mlir.compiler.caching.programs import ProgramCache
from rammer_mlir.compiler.inlined_weights import with_values
from rammer_mlir.compiler.options import CheckedOptions, refuse_samples
from rammer_mlir.compiler.pipeline import applied_costs
from rammer_mlir.compiler.shared_code import NOTHING_KNOWN, KnownCode, KnownObjects
from rammer_mlir.compiler.specialization_inputs import Given
from rammer_mlir.compiler.stage import Image, Work
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES, REGIONS
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
from rammer_mlir.lowering.external.calls import external_kernels
from rammer_mlir.lowering.profiling.profiler import profile_kernels
from rammer_mlir.lowering.profiling.rtask_check_external import warn_unchecked
from rammer_mlir.open_models.constant_sharing import ConstantStore
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.program_ir import ScheduledModule, read_plan
from rammer_mlir.passes.program.task_graph import graph_of_operators
from rammer_mlir.programs.dimensions import Shapes
from rammer_mlir.programs.gpu_image import GpuCode
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.replay import simulate_repeated
from rammer_mlir.scheduling.simulated_plan import executed_plan
from rammer_mlir.support.garbage import paused_collector
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
    """Compile an ONNX model, and return the executable.

    Args:
        source: the model, not modified.
        options: checked options.
        shapes: static shapes, by name, of inputs with open dimensions.
        device: index of the GPU.
        executor: runs measurements of rKernels; None measures in this process.

    Raises:
        RammerError: if the model is invalid or cannot be compiled.
    """
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
    """Compile a loaded model; if shapes depend on data, return its host program uncompiled.

    A host program is a list of steps in Python; a step may call a compiled part of the model.

    Args:
        source: the model, not modified.
        options: checked options.
        given: shapes and values to specialize for.
        device: index of the GPU.
        executor: runs measurements of rKernels; None measures in this process.
        known: object code of other programs; the compilation reuses code of equal programs and
            rKernels.
        programs: cached programs; the compilation reuses the code of a program that differs only in
            weights. None for no cache.

    Raises:
        RammerError: as ``compile_model`` does.
    """
    _log_begin(options)
    # The programs that are compiled to choose regions are garbage before the compilation ends.
    with paused_collector(not options.offload):
        begin = time.perf_counter()
        lookup = None if programs is None else ProgramLookup(programs, source, given)
        if lookup is not None and (known_program := lookup.find()) is not None:
            return known_program
        prepared = prepare_any(source, given.shapes, given.values, is_repeated=given.is_repeated)
        if isinstance(prepared, HostedGraph):
            refuse_samples(options)
            return prepared
        if lookup is not None and (known_program := lookup.find_prepared(prepared)) is not None:
            return known_program
        compilation = Compilation.of_import(import_prepared(prepared), options, begin)
        compilation.use_known(known)
        made = _executable(compilation, device, executor)
        if lookup is not None:
            lookup.keep(made, compilation.recipes)
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
    """The compilation of one model through the stages of its target."""

    def __init__(self, begin: ImportedModel, options: CheckedOptions) -> None:
        """Begin with the IR and the weights of ``begin``, at the stage that its IR has reached.

        The stage is `linalg` or a later one.

        Raises:
            OptionError: if the target does not have the stage.
        """
        options.backend.check_stage(begin.stage, options)
        self._begin = begin
        self._options, self._backend = options, options.backend
        context = ir.Context()
        dialects.register(context)
        with context:
            module = ir.Module.parse(begin.bytecode)
        names = options.backend.emits(options)
        reached = list(names[: names.index(begin.stage) + 1])
        self._work = Work(module, begin.signature, begin.constants, options, reached=reached)
        if options.given["offload_check"] and "buffers" in reached:
            warn_unchecked(
                [kernel.name for kernel in external_kernels(module)],
                f"a module of the stage tasks or an earlier one, found one of {begin.stage}",
            )

    @staticmethod
    def of_model(
        source: Source | Model,
        options: CheckedOptions,
        shapes: Shapes | None = None,
    ) -> Compilation:
        """Return the compilation of an ONNX model for static ``shapes`` of its inputs.

        The model ``source`` is not modified.

        Raises:
            RammerError: if the model is invalid, uses unsupported features, or has unknown shapes.
        """
        _log_begin(options)
        begin = time.perf_counter()
        return Compilation.of_import(import_model(source, shapes=shapes), options, begin)

    @staticmethod
    def of_import(imported: ImportedModel, options: CheckedOptions, begin: float) -> Compilation:
        """Return an imported model's compilation.

        ``begin`` is the time at which the import began, in seconds of ``time.perf_counter``.
        """
        compilation = Compilation(imported, options)
        compilation.seconds[imported.stage] = time.perf_counter() - begin
        log_seconds(imported.stage, compilation.seconds[imported.stage])
        return compilation

    def use_known_kernels(self, known: KnownCode[GpuCode]) -> None:
        """Let this compilation reuse a GPU kernel in ``known`` if its LLVM IR is equal.

        The kernel is then not compiled again. Only kernels of NVIDIA GPUs are reused.
        """
        self._work.known_kernels = known

    def use_known(self, known: KnownObjects) -> None:
        """Let this compilation reuse the object code of equal programs and rKernels in ``known``.

        Such code is then not compiled again.
        """
        self._work.known = known

    @property
    def module(self) -> ir.Module:
        """The module at the last completed stage that produces MLIR."""
        return self._work.module

    @property
    def recipes(self) -> Mapping[int, Recipe]:
        """The recipe that packs each weight, by the index of the entry function's argument.

        The mapping is empty before the stage `target`.
        """
        return self._work.recipes

    @property
    def seconds(self) -> dict[str, float]:
        """Duration in seconds of each completed stage, by name."""
        return self._work.seconds

    @property
    def image(self) -> Image:
        """The program as data (tables, weights, signature); compiles up to the stage `target`.

        Raises:
            RammerError: if a stage fails.
        """
        self.run_to("target")
        assert self._work.image is not None
        return self._work.image

    def run_to(self, stage: str) -> None:
        """Run all stages up to ``stage`` that have not run yet.

        Raises:
            OptionError: if the target does not have the stage.
            RammerError: if a stage fails.
        """
        self._backend.check_stage(stage, self._work.options)
        if stage not in self._work.reached:
            with self._places():
                self._backend.run(self._work, stage)

    def emit(self, stage: str) -> bytes:
        """Compile up to a stage; return the text of its IR or assembly, or its binary, as bytes.

        Raises:
            OptionError: if the stage is unknown, or the target does not have it.
            TargetError: if a tool of the stage is missing or fails.
        """
        self.run_to(stage)
        return self._work.printed()

    def emit_whole(self, stage: str, *, as_bytecode: bool = False) -> bytes:
        """Compile up to a stage of IR; return the IR including the values of all weights.

        ``rammer_mlir.compile`` accepts the result without any other file.

        Args:
            stage: one of ``PORTABLE_STAGES``, or `regions`.
            as_bytecode: return bytecode, which is smaller and faster to read, instead of text.

        Raises:
            OptionError: if ``stage`` is any other stage.
            RammerError: as ``emit`` does.
        """
        if stage not in (REGIONS, *PORTABLE_STAGES):
            raise OptionError(
                f"stage '{stage}': expected one of {REGIONS}, {', '.join(PORTABLE_STAGES)} with "
                "values of weights, found another one; leave the values out"
            )
        self.run_to(stage)
        whole = with_values(self.module, self._work.constants)
        if not as_bytecode:
            return dialects.get_asm(whole).encode()
        buffer = io.BytesIO()
        whole.operation.write_bytecode(buffer)
        return buffer.getvalue()

    def code(self) -> Code:
        """Compile to the last stage, and return the binary with the program's data.

        Raises:
            TargetError: if a tool fails, or not all vEUs can be resident at once.
        """
        self._work.is_separate = True
        with self._places():
            return self._backend.compile(self._work)

    @contextmanager
    def _places(self) -> Generator[None]:
        """Return a context manager that adds locations in the user's MLIR file to errors of passes.

        Without an MLIR file, errors are raised unchanged.
        """
        try:
            yield
        except PassError as error:
            # Locations of an ONNX model name nodes, which messages contain already.
            if not self._begin.file:
                raise
            refuse(error, self._begin.file)

    def executable(self, device: int = 0) -> CompiledModel:
        """Compile, load the code, and return the executable.

        ``device`` is the index among the target's devices.

        Raises:
            OptionError: if the index is invalid.
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
        """Compile the model again without foreign code, as the fallback of ``loaded``.

        Do nothing if the user requests no fallback, or if ``loaded``, the compiled program, runs
        without foreign code anyway.
        """
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
        # The program and its fallback have many equal weights.
        ConstantStore().share(loaded)
        loaded.stats["seconds"]["fallback"] = sum(fallback.stats["seconds"].values())

    def profile(self, executor: Executor | None = None) -> int:
        """Measure all rKernels without a stored measurement; return how many were measured.

        ``executor`` runs the measurements; None measures in this process. A compilation with
        measured costs takes missing measurements itself, in this process.
        """
        self._work.executor = executor
        self.run_to("buffers")
        with self._work.timed("profile"), self._places():
            num_veus = self._options.num_veus
            return profile_kernels(self.module, executor=executor, num_veus=num_veus)

    def task_graph(self) -> TaskGraph:
        """Return the tiled rOperators on buffers as the task graph that policies schedule."""
        self.run_to("buffers")
        with self.module.context, ir.Location.unknown():
            return graph_of_operators(self.module).graph()

    def _priced_graph(self, passes: tuple[str, ...]) -> TaskGraph:
        """Compile up to the stage `buffers`, run ``passes``, and return the task graph.

        ``passes`` are passes in textual form that annotate rKernels with costs; it may be empty.
        """
        self.run_to("buffers")
        if passes:
            run_pipeline(self.module, f"builtin.module({','.join(passes)})")
        return self.task_graph()

    def schedule(self) -> ScheduledModule:
        """Compile up to the `program` stage and return the schedule, which later stages erase."""
        self.run_to("program")
        with self.module.context, ir.Location.unknown():
            return read_plan(self.module)

    def predict(self, policies: Sequence[str] = ()) -> list[Timeline]:
        """Return simulated timelines: of the program, then of its rOperators under other policies.

        ``policies`` are the names of the other policies.

        Raises:
            OptionError: if a policy is unknown.
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
        """Return an explanation of the program's time: bottlenecks, losses, other policies' times.

        Args:
            measured: a recorded run of the program; by default, a simulated run.
            policies: policies to simulate in addition to the program's policy.

        Raises:
            OptionError: if a policy is unknown.
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
        """Return the policy's name, the task graph and the plan of each schedule to simulate.

        The program's schedule is first; the schedules of ``policies`` follow, in order. If the
        program is folded (scheduled for the device's vEUs, then mapped to fewer threads), the task
        graph is scheduled again by the program's policy, for the device's vEUs.
        """
        for name in policies:
            get_policy(name)
        options = self._work.options
        if options.measured:
            self.profile()
        graph = self._priced_graph(applied_costs(options))
        own = self.schedule()
        with self.module.context, ir.Location.unknown():
            runs = [(options.policy, own.builder.graph(), own.plan)]
        if options.fold_to:  # the folded program is not the device's
            runs, policies = [], (options.policy, *policies)
        device = self._device()
        for name in policies:
            runs.append((name, graph, executed_plan(get_policy(name), graph, device)))
        return runs
