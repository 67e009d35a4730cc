"""Declares the options of a compilation in a single place; the target is a separate argument.

``rammer_mlir.compile``, the command line, its help, the checks and the compile cache's key all
derive from these declarations. A new option therefore needs only an entry in ``Options`` and the
code that uses it.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, TypedDict, Union, cast, get_args, get_origin, get_type_hints

DEFAULT_TARGET = "cpu"
"""Name of the target that is used if the user gives none."""

DEFAULT_SPECIALIZATIONS = 16
"""Default limit of specializations in memory of a model with open dimensions."""


@dataclass(frozen=True)
class Option:
    """The metadata of an option, in addition to its name and type.

    Attributes:
        default: default value.
        help: help text, without a full stop.
        flag: the option's name on the command line; by default its name in Python with dashes. The
            flag of an option that is true by default begins with ``--no-``.
        metavar: placeholder of the value in help texts.
        words: description of valid values for messages; by default derived from the type, such as
            "an integer".
        only_for: description of the targets that support the option, for messages; empty if all
            targets do. Each backend lists the names of the options that it supports.
        is_bytes: whether the value is a size in bytes, which the command line accepts with a unit.
    """

    default: object
    help: str
    flag: str = ""
    metavar: str = ""
    words: str = ""
    only_for: str = ""
    is_bytes: bool = False


class Options(TypedDict, total=False):
    """Options of a compilation, by name."""

    policy: Annotated[
        str,
        Option("wavefront", "how rTasks are scheduled: a policy's name"),
    ]
    num_veus: Annotated[
        int | None,
        Option(
            None,
            "number of virtual execution units: threads on a CPU, resident blocks on a GPU "
            "(default: one for each core or multiprocessor)",
            flag="--veus",
            metavar="N",
        ),
    ]
    costs: Annotated[
        str | None,
        Option(
            None,
            "device whose costs the schedule follows: a name (a100), or a file that ends with "
            ".toml; 'measured' measures the rKernels on this processor, once, 'measured:DEVICE' "
            "takes the rest from that device; a registered cost function is chosen alike, by NAME "
            "or NAME:DEVICE (default: one like the target)",
            metavar="DEVICE",
            words="a name or a file",
        ),
    ]
    boundary: Annotated[
        str,
        Option(
            "parallelism",
            "which operations are fused, of those that may be: none; those that lose no "
            "parallelism that matters; as long as an operator reads no more than F different "
            "tensors, 0 for any number; or those that lower the predicted time",
            metavar="none|parallelism|inputs=F|cost",
        ),
    ]
    temporaries: Annotated[
        bool,
        Option(
            True,
            "compute element-wise values of an operator again for each of their readers, in place "
            "of keeping them in a temporary, to compare with",
            flag="--no-temporaries",
        ),
    ]
    merge: Annotated[
        float | None,
        Option(
            None,
            "merge convolutions or products of one input where that multiplies the arithmetic by "
            "no more than this, at least 1, with the policy ios only where it makes a stage "
            "faster; 0 for none (default: 1 with the policy ios, else 0)",
            metavar="GROWTH",
        ),
    ]
    winograd: Annotated[
        bool,
        Option(
            True,
            "compute 3x3 convolutions with fewer multiplications where that is faster, on a CPU; "
            "rounding errors are some ten times as large",
            flag="--no-winograd",
        ),
    ]
    memory_budget: Annotated[
        int | None,
        Option(
            None,
            "most bytes that intermediates may take: chains of operators are computed in chunks, "
            "values computed again rather than kept, and operators wait for memory, until their "
            "arena fits; on the command line also as 4MiB (default: no limit)",
            metavar="BYTES",
            is_bytes=True,
        ),
    ]
    rkernels: Annotated[
        str,
        Option(
            "",
            "registered providers that may offer rKernels beside the compiler's own",
            metavar="PROVIDER,...",
            words="a text of names, separated by commas",
            only_for="the CPU or a GPU",
        ),
    ]
    offload: Annotated[
        str,
        Option(
            "",
            "registered code generators that may compile regions of the model, the first one named "
            "having the first choice",
            metavar="CODEGEN,...",
            words="a text of names, separated by commas",
            only_for="the CPU or a GPU",
        ),
    ]
    offload_choice: Annotated[
        str,
        Option(
            "cost",
            "whether a region is theirs where that lowers the predicted time of the whole program, "
            "or always",
            metavar="cost|always",
            only_for="the CPU or a GPU",
        ),
    ]
    offload_seconds: Annotated[
        float,
        Option(
            60.0,
            "seconds after which no further choice of regions is simulated and, with --costs "
            "measured, counted anew, no further program is compiled; the numbers left out are "
            "reported",
            metavar="SECONDS",
            only_for="the CPU or a GPU",
        ),
    ]
    offload_check: Annotated[
        bool,
        Option(
            False,
            "on a CPU, run the rTasks of foreign code alone on random numbers, beside the "
            "compiler's own, and refuse those that read or write outside of their boxes; a warning "
            "names rKernels that have none of the compiler's beside them, which are not checked",
            only_for="the CPU",
        ),
    ]
    fallback: Annotated[
        str,
        Option(
            "refuse",
            "on a CPU, what is done where code from elsewhere lacks something that it needs, when "
            "it is compiled or loaded: refuse the program, or warn and let the host's rKernels "
            "compute the model, which are compiled too",
            metavar="refuse|host",
            only_for="the CPU",
        ),
    ]
    module_options: Annotated[
        Mapping[str, str | int | float | bool],
        Option(
            MappingProxyType[str, object]({}),
            "on a CPU, values of options that code generators and engines declare "
            "(--list-codegens shows them), as openvino.threads=2; on the command line once for "
            "each",
            flag="--module-option",
            metavar="NAME.OPTION=VALUE",
            words="a mapping from names to values, as {'openvino.threads': 2}",
            only_for="the CPU",
        ),
    ]
    quantize: Annotated[
        int,
        Option(
            0,
            "on a CPU, bits of what products and convolutions of regions read, 8 or 16, where that "
            "is good enough on the calibration data; regions are those of offload, or each layer "
            "for the host; 0 for 32",
            metavar="8|16",
            only_for="the CPU",
        ),
    ]
    calibration: Annotated[
        str | os.PathLike[str] | Mapping[str, object] | None,
        Option(
            None,
            "samples of the inputs for quantize: an .npz file with an array for each input, which "
            "holds the samples one behind the other; in Python also the arrays by name",
            metavar="FILE.npz",
            words="the name of an .npz file, or arrays by name",
            only_for="the CPU",
        ),
    ]
    quantize_bound: Annotated[
        float,
        Option(
            25.0,
            "least ratio of signal to noise, in decibels, of a region with fewer bits; below it, "
            "the region stays f32",
            metavar="DECIBELS",
            only_for="the CPU",
        ),
    ]
    quantize_method: Annotated[
        str,
        Option(
            "minmax",
            "how the range of 8 bits is chosen: all values of the samples, 99.99% of them, or "
            "those whose clipping diverges least",
            metavar="minmax|percentile|entropy",
            only_for="the CPU",
        ),
    ]
    quantize_dynamic: Annotated[
        bool,
        Option(
            False,
            "take the range of 8 bits from the data of each run, not from the samples",
            only_for="the CPU",
        ),
    ]
    watchdog: Annotated[
        int,
        Option(
            0,
            "on a GPU, stop the program when a waiting vEU has polled another one's progress this "
            "often in vain, so that a run ends with an error instead of never; 0 for no watchdog",
            metavar="POLLS",
            only_for="a GPU",
        ),
    ]
    per_operator: Annotated[
        bool,
        Option(
            False,
            "on a GPU, one launch for each operator instead of one for all, to compare with",
            only_for="a GPU",
        ),
    ]


@dataclass(frozen=True)
class Declared:
    """An option with its name and type.

    Attributes:
        name: name of the option as a Python argument.
        kind: ``str``, ``int``, ``float``, ``bool``, or ``Mapping``.
        may_be_none: whether None is a valid value.
        option: the option's default, help text and other metadata.
    """

    name: str
    kind: type
    may_be_none: bool
    option: Option

    @property
    def flag(self) -> str:
        """Return the option's spelling on the command line."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"


@cache
def declared_options() -> tuple[Declared, ...]:
    """Return all options, in the order of the fields of ``Options``."""
    hints = get_type_hints(Options, include_extras=True)
    return tuple(_declared(name, hint) for name, hint in hints.items())


def _declared(name: str, hint: object) -> Declared:
    kind, option = get_args(hint)
    alternatives = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = [each for each in alternatives if each is not type(None)]
    return Declared(name, get_origin(plain[0]) or plain[0], len(plain) < len(alternatives), option)


def with_defaults(given: Mapping[str, object]) -> Options:
    """Return the options ``given``, by name, with defaults for all options that are missing."""
    complete = {declared.name: declared.option.default for declared in declared_options()}
    return Options(**{**complete, **given})  # type: ignore[typeddict-item]


def as_plain_values(options: Options) -> Options:
    """Return options with Python's builtin types instead of NumPy's and similar types."""
    values: dict[str, object] = dict(options)
    for declared in declared_options():
        value = values[declared.name]
        if declared.kind is Mapping:
            values[declared.name] = dict(cast("Mapping[str, object]", value))
        elif value is not None:
            values[declared.name] = declared.kind(value)
    return Options(**values)  # type: ignore[typeddict-item]


def described_options() -> str:
    """Return a paragraph of text for each option, for use in a docstring."""
    return "\n".join(
        textwrap.indent(
            "\n    ".join(textwrap.wrap(f"{declared.name}: {declared.option.help}.", 86)), " " * 8
        )
        for declared in declared_options()
    )
