"""Defines the interface between the compiler and a target."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.stage import Image, Stage, Work, run_stages
from rammer_mlir.compiler.stage_names import KNOWN_STAGES, PORTABLE_STAGES, REGIONS
from rammer_mlir.emulation.codegen.kernel import KernelCode
from rammer_mlir.errors import OptionError, RammerError, TargetError
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.scheduling.devices.catalog import device_for
from rammer_mlir.scheduling.devices.description import DeviceDescription
from rammer_mlir.support.failures import FAILURES, failure_text


@dataclass(frozen=True)
class Code:
    """A compiled model.

    Attributes:
        image: all of the program except its code, such as weights, task tables and signature.
        binary: an object file, or code for a device.
        stats: compiler statistics by name: ``seconds`` (by stage), sizes in bytes, and the
            compiler's decisions.
        kernel: for an emulated GPU, the description of the kernel that the emulator runs; else
            None.
        objects: objects of foreign code that are linked with the binary.
    """

    image: Image
    binary: bytes
    stats: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kernel: KernelCode | None = None
    objects: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Backend(ABC):
    """A target: its options, its stages down to the binary, and its loader.

    A subclass is a frozen dataclass; ``of`` constructs it from the text after the name in
    ``--target``. ``rammer_mlir.extend.register_target`` registers the subclass.
    """

    name: ClassVar[str]
    """The first part of ``--target``."""

    spelling: ClassVar[str]
    """Syntax of ``--target`` for help texts: ``nvvm[:CHIP]``."""

    takes: ClassVar[frozenset[str]] = frozenset()
    """Names of the options with ``Option.only_for`` that this target supports."""

    lacks: ClassVar[tuple[str, ...]] = ()
    """Limitations that may surprise users of the target, one sentence each."""

    measures: ClassVar[bool] = False
    """Whether rKernels can be measured on this machine (``--costs measured``)."""

    is_cached: ClassVar[bool] = True
    """Whether compiled programs can be written to files, and therefore cached."""

    repacks_weights: ClassVar[bool] = False
    """Whether a cached program can be reused with other weights, packed by stored recipes."""

    has_supersteps: ClassVar[bool] = False
    """Whether the target executes schedules for bulk-synchronous devices."""

    @classmethod
    @abstractmethod
    def of(cls, rest: str) -> Self:
        """Return the backend for ``--target NAME:rest``; ``rest`` is empty for ``--target NAME``.

        Raises:
            RammerError: if the processor that ``rest`` names is unknown.
        """

    @property
    @abstractmethod
    def target(self) -> str:
        """The target with its processor, as artifacts name it, for example ``nvvm:sm_90``."""

    @property
    @abstractmethod
    def default_veus(self) -> int:
        """Count of vEUs if the user does not give a count."""

    @abstractmethod
    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return all stages that follow `linalg`, in order; the last makes the final binary."""

    @classmethod
    def syntax(cls) -> str:
        """Return the ``--target`` syntax of this target for messages, such as ``nvvm[:CHIP]``.

        The syntax is ``spelling``, but starts with ``name``: a subclass may inherit the
        ``spelling`` of another target.
        """
        return re.sub(r"^[^\[:]*", cls.name, cls.spelling)

    def checked_stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return this target's stages, after a check that they are well-formed.

        Raises:
            TargetError: if ``stages`` of a registered target fails, or if its result is not a
                sequence of stages with different names.
        """
        with self._blamed():
            found = self.stages(options)
        wrong = _wrong_stages(found)
        if wrong:
            raise TargetError(f"target '{self.name}': {wrong}")
        return tuple(found)

    def run(self, work: Work, last: str) -> None:
        """Run the remaining stages of the compilation ``work``, up to and including ``last``.

        Raises:
            RammerError: if a stage fails. If a stage of a target that a user registered fails with
                any other exception, this is a TargetError.
        """
        stages = self.checked_stages(work.options)
        with self._blamed():
            run_stages(work, stages, last)

    @contextmanager
    def _blamed(self) -> Generator[None]:
        """Return a context in which exceptions of a registered target become a TargetError.

        RammerErrors, and exceptions of built-in targets, are raised unchanged.
        """
        try:
            yield
        except RammerError:
            raise
        except FAILURES as error:
            if type(self).__module__.startswith("rammer_mlir."):
                raise
            raise TargetError(
                f"target '{self.name}' failed with {failure_text(error)}; mend it, or choose "
                "another one"
            ) from error

    def last_stage(self, options: CompileOptions) -> str:
        """Return the name of the stage that produces the code of an executable.

        By default this is the last of all stages. A target whose tools may be missing on a machine
        overrides this method.
        """
        return self.checked_stages(options)[-1].name

    def compile(self, work: Work) -> Code:
        """Run the remaining stages of the compilation ``work``, and return the compiled model.

        Raises:
            RammerError: if a stage fails.
        """
        self.run(work, self.last_stage(work.options))
        assert work.image is not None
        offload = {} if work.decision is None else {"offload": work.decision.stats()}
        quantized = {} if work.quantized is None else {"quantize": work.quantized.stats()}
        memory = {} if work.memory is None else {"memory_budget": work.memory.stats()}
        stats = {"seconds": work.seconds, **work.stats, **offload, **quantized, **memory}
        return Code(work.image, work.binary or work.text.encode(), stats, work.kernel, work.objects)

    @abstractmethod
    def load(self, code: Code, device: int = 0) -> CompiledModel:
        """Return the executable; ``device`` is the index among the devices of this target."""

    def check(self, options: CompileOptions) -> None:  # noqa: B027  most targets refuse none
        """Check that the options are compatible with this target and with each other.

        Raises:
            OptionError: if options are not compatible; the message names these options.
        """

    def tools(self) -> str:
        """Return a text that identifies the external tools that generate code, for cache keys.

        By default the text is empty: no external tools.
        """
        return ""

    @property
    def runs_here(self) -> bool:
        """Whether this machine can load the programs; other programs can only be saved."""
        return True

    @property
    def device(self) -> DeviceDescription:
        """The device for which schedules are optimized, unless the user names another device."""
        return device_for(self.target)

    def emits(self, options: CompileOptions) -> tuple[str, ...]:
        """Return the names of the stages that ``--emit`` can print, in the order of compilation."""
        return (PORTABLE_STAGES[0], *(stage.name for stage in self.checked_stages(options)))

    def check_stage(self, name: str, options: CompileOptions) -> None:
        """Check that this target has a stage ``name`` with these options.

        Raises:
            OptionError: if the target has no such stage; the message lists the stages.
        """
        offered = self.emits(options)
        if name in offered:
            return
        listed = ", ".join(offered)
        if name not in KNOWN_STAGES:
            raise OptionError(f"unknown stage '{name}': expected one of {listed}")
        advice = "another target"
        if name == REGIONS and "offload" in self.takes:
            advice = "code generators with offload (--offload)"
        raise OptionError(
            f"stage '{name}': expected one that target '{options.target}' has, {listed}; choose "
            f"one of these, or {advice}"
        )


def _wrong_stages(found: object) -> str:
    """Return an error message if a target's stages ``found`` are malformed; else an empty text."""
    if not isinstance(found, Sequence) or not found:
        return f"expected a tuple of stages, found {found!r}"
    stages: Sequence[object] = found
    for stage in stages:
        if not isinstance(stage, Stage):
            return f"expected stages, found {stage!r}"
        if stage.step is not None and not callable(stage.step):
            return f"stage '{stage.name}': expected a function as its step, found {stage.step!r}"
    names = [stage.name for stage in stages if isinstance(stage, Stage)]
    repeated = [name for name in names if names.count(name) > 1]
    return f"expected stages of different names, found '{repeated[0]}' twice" if repeated else ""
