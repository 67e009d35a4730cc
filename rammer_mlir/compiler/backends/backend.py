"""The contract between the compiler and a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.stage import Image, Stage, Work, run_stages
from rammer_mlir.compiler.stage_names import KNOWN_STAGES, PORTABLE_STAGES
from rammer_mlir.emulation.codegen.kernel import KernelCode
from rammer_mlir.errors import OptionError
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.scheduling.devices.catalog import device_for
from rammer_mlir.scheduling.devices.description import DeviceDescription


@dataclass(frozen=True)
class Code:
    """A compiled model.

    Attributes:
        image: the program's data.
        binary: an object, or code for a device.
        stats: what the compiler measured: seconds by stage, sizes.
        kernel: what the emulator knows of a kernel beside its object.
        objects: code from elsewhere that is linked with the binary.
    """

    image: Image
    binary: bytes
    stats: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kernel: KernelCode | None = None
    objects: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Backend(ABC):
    """A target: its options, its stages down to the binary, and what runs that.

    A subclass is a frozen dataclass; ``of`` makes it from what follows the name in ``--target``.
    It is registered by ``rammer_mlir.extend.register_target``.
    """

    name: ClassVar[str]
    """How ``--target`` begins."""

    spelling: ClassVar[str]
    """``--target`` in help: ``nvvm[:CHIP]``."""

    takes: ClassVar[frozenset[str]] = frozenset()
    """Options that not every target has, and this one does (``Option.only_for``)."""

    lacks: ClassVar[tuple[str, ...]] = ()
    """What a user may expect of a target and does not get here, a sentence each."""

    measures: ClassVar[bool] = False
    """Whether rKernels can be measured on this machine (``--costs measured``)."""

    is_cached: ClassVar[bool] = True
    """Whether what it compiles can be written to a file, and so be kept."""

    repacks_weights: ClassVar[bool] = False
    """Whether other weights can be packed as recipes say, for a program that is kept."""

    has_supersteps: ClassVar[bool] = False
    """Whether it executes schedules of devices that synchronise as a whole."""

    @classmethod
    @abstractmethod
    def of(cls, rest: str) -> Self:
        """Return the back end for ``NAME:rest``; ``rest`` is empty where there is no colon.

        Raises:
            RammerError: if there is no such processor.
        """

    @property
    @abstractmethod
    def target(self) -> str:
        """The target with its processor, as artifacts name it: ``nvvm:sm_90``."""

    @property
    @abstractmethod
    def default_veus(self) -> int:
        """VEUs where the user names no number."""

    @abstractmethod
    def stages(self, options: CompileOptions) -> tuple[Stage, ...]:
        """Return the whole way from `linalg` to the last binary, in order."""

    def last_stage(self, options: CompileOptions) -> str:
        """Return the stage that code is taken from: the last one, if every tool is at hand."""
        return self.stages(options)[-1].name

    def compile(self, work: Work) -> Code:
        """Take a model through all stages that it has not reached yet, to code.

        Raises:
            RammerError: if a stage does not succeed.
        """
        run_stages(work, self.stages(work.options), self.last_stage(work.options))
        assert work.image is not None
        offload = {} if work.decision is None else {"offload": work.decision.stats()}
        quantized = {} if work.quantized is None else {"quantize": work.quantized.stats()}
        memory = {} if work.memory is None else {"memory_budget": work.memory.stats()}
        stats = {"seconds": work.seconds, **work.stats, **offload, **quantized, **memory}
        return Code(work.image, work.binary or work.text.encode(), stats, work.kernel, work.objects)

    @abstractmethod
    def load(self, code: Code, device: int = 0) -> CompiledModel:
        """Return the executable; ``device`` numbers the devices of this kind."""

    def check(self, options: CompileOptions) -> None:  # noqa: B027  most targets refuse none
        """Refuse options that exclude each other on this target.

        Raises:
            OptionError: naming them.
        """

    def tools(self) -> str:
        """Identify tools outside of the compiler that decide what code becomes."""
        return ""

    @property
    def runs_here(self) -> bool:
        """Whether this machine can load the programs; others are only written to files."""
        return True

    @property
    def device(self) -> DeviceDescription:
        """The device whose costs schedules follow, unless the user names one."""
        return device_for(self.target)

    def emits(self, options: CompileOptions) -> tuple[str, ...]:
        """Return the names of the stages that can be printed, in order."""
        return (PORTABLE_STAGES[0], *(stage.name for stage in self.stages(options)))

    def check_stage(self, name: str, options: CompileOptions) -> None:
        """Refuse a stage that this target does not have.

        Raises:
            OptionError: listing those that it has.
        """
        offered = self.emits(options)
        if name not in (*KNOWN_STAGES, *offered):
            raise OptionError(f"unknown stage '{name}': expected one of {', '.join(KNOWN_STAGES)}")
        own = [each for each in offered if each not in PORTABLE_STAGES]
        if name not in offered:
            raise OptionError(
                f"stage '{name}': expected one that target '{options.target}' has, "
                f"{', '.join(own)}; choose one of these, or another target"
            )
