"""Reads device descriptions: TOML files with sizes and speeds of a device, each with its source."""

from __future__ import annotations

import reprlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device_costs import Device

_DTYPES = ("f64", "f32", "tf32", "f16", "bf16", "f8", "i8")
_MATRIX_DTYPES = ("tf32", "f16", "bf16")
"""Element types for which the rate in a device description is that of matrix instructions."""

_ZERO_IF_LEFT_OUT = (
    "unit_cache_kept_bytes", "unit_cache_lost_bytes", "single_launch_seconds",
    "queued_launch_seconds", "memory_latency_seconds", "bytes_in_flight_per_veu",
)  # fmt: skip
_MAY_BE_LEFT_OUT = (*_ZERO_IF_LEFT_OUT, "arithmetic_efficiency", "bandwidth_efficiency")
_MAY_BE_ZERO = (*_ZERO_IF_LEFT_OUT, "registers_per_unit", "cache_bytes", "unit_cache_bytes")
"""Fields with a count that may be 0; every field with a time may be 0."""


@dataclass(frozen=True)
class DeviceDescription:
    """Sizes and speeds of a device, whose hardware is divided into units.

    A unit is a core, multiprocessor, compute unit or tile.

    Attributes:
        name: stem of the file name.
        title: maker and model.
        targets: targets whose programs are scheduled for this device by default.
        units: number of units of the device.
        veus_per_unit: maximum number of vEUs that are resident on a unit.
        threads_per_unit, threads_per_veu: maximum number of resident threads of a unit, and of a
            vEU.
        registers_per_unit: 32-bit registers of a unit; 0 if registers do not limit the vEUs.
        shared_bytes_per_unit, shared_bytes_per_veu: shared memory of a unit, and the most that a
            vEU gets.
        clock_hertz: maximum clock in cycles per second.
        flops_per_second: scalar operations per second of the whole device, by element type such as
            ``f32``.
        cache_bytes: size of the last-level cache that all units share; 0 if there is none.
        unit_cache_bytes: bytes that a unit's own cache retains between rTasks; 0 if none.
        bytes_per_second: memory bandwidth of the whole device.
        unit_bytes_per_second: bandwidth of a unit if no other unit uses the memory.
        launch_seconds: cost of starting an rProgram.
        barrier_seconds: cost of a barrier-rTask whose waits are already satisfied.
        rtask_seconds: fixed cost of starting an rTask.
        is_bulk_synchronous: whether units can only synchronize all together, and an rTask can only
            access data in the memory of its own unit.
        sources: for each other field, by its name, a text that says where its value is from.
        unit_cache_kept_bytes, unit_cache_lost_bytes: a unit's own cache still has all of its data
            after accesses to ``unit_cache_kept_bytes`` of other data, and none of it after
            ``unit_cache_lost_bytes``. 0 or omitted if not measured; then both are taken as
            ``unit_cache_bytes``.
        single_launch_seconds: cost of starting an rProgram of a single vEU, which starts no other
            vEU; 0 or omitted if equal to ``launch_seconds``.
        queued_launch_seconds: cost of starting an rProgram that was queued while its predecessor
            ran; 0 or omitted if not lower than ``launch_seconds``.
        memory_latency_seconds: time from a load to its use when the memory is busy; 0 or omitted if
            loads in flight do not limit the bandwidth.
        bytes_in_flight_per_veu: bytes that a vEU's rKernels have requested and not received yet.
            The bandwidth of a vEU is at most these bytes divided by ``memory_latency_seconds``. 0
            or omitted if ``memory_latency_seconds`` is 0 or omitted.
        arithmetic_efficiency, bandwidth_efficiency: share of ``flops_per_second`` and of
            ``bytes_per_second`` that this project's rKernels reach; 1 if omitted.
    """

    name: str
    title: str
    targets: tuple[str, ...]
    units: int
    veus_per_unit: int
    threads_per_unit: int
    threads_per_veu: int
    registers_per_unit: int
    shared_bytes_per_unit: int
    shared_bytes_per_veu: int
    clock_hertz: float
    flops_per_second: Mapping[str, float]
    cache_bytes: int
    unit_cache_bytes: int
    bytes_per_second: float
    unit_bytes_per_second: float
    launch_seconds: float
    barrier_seconds: float
    rtask_seconds: float
    is_bulk_synchronous: bool
    sources: Mapping[str, str]
    unit_cache_kept_bytes: int = 0
    unit_cache_lost_bytes: int = 0
    single_launch_seconds: float = 0.0
    queued_launch_seconds: float = 0.0
    memory_latency_seconds: float = 0.0
    bytes_in_flight_per_veu: int = 0
    arithmetic_efficiency: float = 1.0
    bandwidth_efficiency: float = 1.0

    @property
    def max_veus(self) -> int:
        """The maximum number of vEUs of the whole device."""
        return self.units * self.veus_per_unit

    def device(self, num_veus: int | None = None, dtype: str = "f32") -> Device:
        """Return the costs and sizes of ``num_veus`` equal vEUs; None stands for a vEU per unit.

        The vEUs are distributed over the units. The vEUs of a unit share the unit's arithmetic and
        bandwidth. A vEU's bandwidth is also limited by its loads in flight (Little's law), so that
        several vEUs of a unit may reach more of the unit's bandwidth than one vEU. ``dtype`` is the
        element type whose arithmetic rate is used.

        Raises:
            OptionError: if ``num_veus`` is below 1 or too large, or ``flops_per_second`` has no
                rate for ``dtype``.
        """
        count = self.units if num_veus is None else num_veus
        if not 1 <= count <= self.max_veus:
            bound = f"at most {self.max_veus} on '{self.name}'" if count > 0 else "at least 1"
            raise OptionError(f"number of vEUs: expected {bound}, found {count}")
        if dtype not in self.flops_per_second:
            raise OptionError(
                f"device '{self.name}': expected one of {', '.join(self.flops_per_second)} in "
                f"flops_per_second, found no '{dtype}'"
            )
        sharing = -(-count // self.units)
        alone = self.single_launch_seconds if count == 1 else 0.0
        bandwidth = self.unit_bytes_per_second / sharing
        if self.memory_latency_seconds:
            in_flight = self.bytes_in_flight_per_veu / self.memory_latency_seconds
            bandwidth = min(bandwidth, in_flight)
        return Device(
            name=self.name,
            num_veus=count,
            flops_per_second=self.arithmetic_efficiency
            * self.flops_per_second[dtype]
            / (self.units * sharing),
            bytes_per_second=bandwidth,
            total_bytes_per_second=self.bandwidth_efficiency * self.bytes_per_second,
            rtask_seconds=self.rtask_seconds,
            barrier_seconds=self.barrier_seconds,
            launch_seconds=alone or self.launch_seconds,
            cache_bytes=self.unit_cache_bytes // sharing,
            cache_kept_bytes=self.unit_cache_kept_bytes // sharing,
            cache_lost_bytes=self.unit_cache_lost_bytes // sharing,
            max_threads=self.threads_per_veu,
            max_shared_memory=min(self.shared_bytes_per_veu, self.shared_bytes_per_unit // sharing),
            is_bulk_synchronous=self.is_bulk_synchronous,
            queued_launch_seconds=self.queued_launch_seconds,
            matrix_rates=tuple(
                (kind, self.arithmetic_efficiency * rate / (self.units * sharing))
                for kind, rate in self.flops_per_second.items()
                if kind in _MATRIX_DTYPES
            ),
        )


def read_description(path: Path) -> DeviceDescription:
    """Return the device description in the TOML file ``path``.

    Raises:
        OptionError: if the file cannot be read or is not TOML, or a key is missing, unknown,
            without a source, or has a value of the wrong type or out of range.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"cannot read '{path}': {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"'{path}' is not a device file in TOML: {error}") from error
    return _Reader(f"device file '{path}'", path.stem, entries).read()


def check_description(found: DeviceDescription) -> DeviceDescription:
    """Check a device description that Python code has made, and return the description.

    The rules are those for TOML files, except that ``sources`` may be left out.

    Raises:
        OptionError: if a value is of the wrong type or out of range.
    """
    entries: dict[str, object] = {
        field.name: getattr(found, field.name)
        for field in fields(found)
        # Omitted values are those of files that omit them, some of which no file may contain.
        if field.name != "name" and getattr(found, field.name) != field.default
    }
    sources = dict.fromkeys(entries, "a program") | dict(found.sources)
    _Reader(f"device '{found.name}'", found.name, {**entries, "sources": sources}).read()
    return found


@dataclass(frozen=True)
class _Reader:
    """Checks values by field name, and makes a device description from them.

    Attributes:
        origin: the file or program that the values are from, for messages.
        name: name of the device.
        entries: the values, of any types.
    """

    origin: str
    name: str
    entries: Mapping[str, object]

    def read(self) -> DeviceDescription:
        names = [field.name for field in fields(DeviceDescription) if field.name != "name"]
        missing = [n for n in names if n not in self.entries and n not in _MAY_BE_LEFT_OUT]
        if missing:
            raise self._error(f"expected '{missing[0]}', found none; add it")
        unknown = sorted(set(self.entries) - set(names))
        if unknown:
            raise self._error(f"expected one of {', '.join(names)}, found '{unknown[0]}'")
        values: dict[str, Any] = {
            "name": self.name,
            "title": self._text("title"),
            "targets": tuple(self._texts("targets")),
            "is_bulk_synchronous": self._truth("is_bulk_synchronous"),
            "flops_per_second": self._rates(),
            "sources": self._sources(),
        }
        for field in fields(DeviceDescription):
            if field.type in ("int", "float") and field.name in self.entries:
                values[field.name] = self._number(field.name, self.entries[field.name], field.type)
        numbers = [name for name in self.entries if name not in ("title", "targets", "sources")]
        without = [name for name in numbers if name not in values["sources"]]
        if without:
            raise self._error(f"sources: expected where '{without[0]}' is from, found nothing")
        if ("memory_latency_seconds" in values) != ("bytes_in_flight_per_veu" in values):
            raise self._error(
                "expected both or none of 'memory_latency_seconds' and 'bytes_in_flight_per_veu'"
            )
        return DeviceDescription(**values)

    def _error(self, message: str) -> OptionError:
        return OptionError(f"{self.origin}: {message}")

    def _number(self, name: str, value: object, kind: str) -> float:
        least, most = _bounds(name)
        kinds = (int,) if kind == "int" else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
            expected = "an integer" if kind == "int" else "a number"
            raise self._error(
                f"{name}: expected {expected} from {least:g} to {most:g}, found {_shortened(value)}"
            )
        return value if kind == "int" else float(value)

    def _truth(self, name: str) -> bool:
        value = self.entries[name]
        if not isinstance(value, bool):
            raise self._error(f"{name}: expected true or false, found {value!r}")
        return value

    def _text(self, name: str) -> str:
        value = self.entries[name]
        if not isinstance(value, str) or not value:
            raise self._error(f"{name}: expected a text, found {value!r}")
        return value

    def _texts(self, name: str) -> list[str]:
        value = self.entries[name]
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
            raise self._error(f"{name}: expected a list of texts, found {value!r}")
        return [str(item) for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def _table(self, name: str) -> dict[str, object]:
        value = self.entries[name]
        if not isinstance(value, dict) or not value:
            raise self._error(f"{name}: expected a table, found {value!r}")
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def _rates(self) -> dict[str, float]:
        table = self._table("flops_per_second")
        unknown = [dtype for dtype in table if dtype not in _DTYPES]
        if unknown:
            raise self._error(
                f"flops_per_second: expected some of {', '.join(_DTYPES)}, found '{unknown[0]}'"
            )
        if "f32" not in table:
            raise self._error("flops_per_second: expected 'f32', found none; add it")
        return {
            dtype: self._number(f"flops_per_second.{dtype}", value, "float")
            for dtype, value in table.items()
        }

    def _sources(self) -> dict[str, str]:
        table = self._table("sources")
        for name, value in table.items():
            if not isinstance(value, str) or not value:
                raise self._error(f"sources.{name}: expected a text, found {value!r}")
        return {name: str(value) for name, value in table.items()}


def _bounds(name: str) -> tuple[float, float]:
    """Return the least and the greatest allowed value of the device description's field ``name``.

    The greatest value is so low that arithmetic on it does not overflow.
    """
    if name.endswith("_efficiency"):
        return 1e-6, 1
    if name.endswith(("_per_second", "_hertz")) or name.startswith("flops_per_second."):
        return 1, 1e24
    if name.endswith("_seconds"):
        return 0, 3600
    return (0 if name in _MAY_BE_ZERO else 1), 1e15


def _shortened(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else reprlib.repr(value)
