"""Lists all ONNX operators: opsets, element types, and how they are compiled.

``python -m rammer_mlir.frontends.onnx.operators docs/operators.md`` writes the table to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx

from rammer_mlir.evaluators.host_table import HOST_EVALUATORS
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.frontends.onnx.builders.table import BUILDERS
from rammer_mlir.frontends.onnx.contrib.table import ML_DOMAIN, ML_RULES, RULES
from rammer_mlir.frontends.onnx.inline import INLINED, INLINED_PREVIEWS, PREVIEW_DOMAIN
from rammer_mlir.frontends.onnx.refusals import reason_of

_EXPANDED, _CELLS = ("If", "Loop", "Scan"), ("GRU", "LSTM", "RNN")

_GROUPS = (
    ("floats", "float16 bfloat16 float double"),
    ("integers", "int8 int16 int32 int64 uint8 uint16 uint32 uint64"),
    ("bool", "bool"),
    ("narrow integers", "int2 uint2 int4 uint4"),
    ("narrow floats", "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 float4e2m1 "
     "float6e2m3 float6e3m2"),
)  # fmt: skip
"""Groups of element types, with the ONNX names of their types."""

_HEADING = """# Operators

Written by `python -m rammer_mlir.frontends.onnx.operators docs/operators.md`.

Models of opset 13 or newer are read as they are, older ones are converted. The opsets are those
in which an operator's definition changed. Element types are those that the newest definition allows
for the first input (or the result, where there is none):

| group | types |
|-------|-------|
{groups}

Where a definition leaves out some of a group, the rest is listed. Strings and complex numbers are
not compiled. Of each operator the [suite](../rammer_mlir/benchmarks/results/onnx-suite.md) of ONNX
says what is tested.
"""

_CONTRIB = """
## Operators of ONNX Runtime

Of the domain `com.microsoft`, written out in ONNX's operators: {contrib}.
"""


def table() -> str:
    """Return the table of operators as a Markdown document."""
    groups = "\n".join(f"| {name} | {', '.join(types.split())} |" for name, types in _GROUPS)
    parts = [_HEADING.format(groups=groups)]
    for domain, title in (
        ("", "Operators of ONNX"),
        (ML_DOMAIN, "Classical machine learning (`ai.onnx.ml`)"),
        (PREVIEW_DOMAIN, "Previews (`ai.onnx.preview`)"),
    ):
        parts.append(f"\n## {title}\n")
        parts += ["| operator | opsets | element types | compiled |", "|---|---|---|---|"]
        parts.extend(_rows(domain))
    parts.append(_CONTRIB.format(contrib=", ".join(sorted(RULES))))
    return "\n".join(parts)


def _rows(domain: str) -> Iterator[str]:
    newest: dict[str, onnx.defs.OpSchema] = {}
    versions: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain:
            versions.setdefault(schema.name, []).append(schema.since_version)
            known = newest.get(schema.name)
            if known is None or schema.since_version > known.since_version:
                newest[schema.name] = schema
    for name, schema in sorted(newest.items()):
        opsets = ", ".join(map(str, sorted(versions[name])))
        yield f"| {name} | {opsets} | {_types(schema)} | {_how(name, domain)} |"


def _types(schema: onnx.defs.OpSchema) -> str:
    values = [*schema.inputs[:1], *schema.outputs[:1]]
    allowed = {text[7:-1] for text in values[0].types if text.startswith("tensor(")}
    texts: list[str] = []
    for name, members in _GROUPS:
        found = [kind for kind in members.split() if kind in allowed]
        if found:
            texts.append(name if len(found) == len(members.split()) else " ".join(found))
    return ", ".join(texts) or "-"


def _how(name: str, domain: str) -> str:
    if domain == ML_DOMAIN:
        return "written out in operators of ONNX" if name in ML_RULES else "no"
    if domain == PREVIEW_DOMAIN:
        return "by its definition" if name in INLINED_PREVIEWS else "no"
    if name in INLINED:
        return "by its definition"
    if name in _EXPANDED:
        return "unrolled where it is short, else by the host around its body"
    if name in _CELLS:
        return "as cells"
    if name in HOST_EVALUATORS:
        return "by the host: data decides about the size of its results"
    reason = reason_of(name)
    if name in EVALUATORS and (reason is not None or name not in BUILDERS):
        return "of constants, and where constants decide about it"
    if reason is not None:
        return f"no: {reason}"
    return "yes" if name in BUILDERS else _elsewhere(name)


def _elsewhere(name: str) -> str:
    """Return a phrase that says how the compiler handles the operator ``name``.

    The operator has no builder (a function that emits linalg operations for a node).
    """
    schema = onnx.defs.get_schema(name, onnx.defs.onnx_opset_version(), "")
    if schema.deprecated:
        return "converted, in models of older opsets"
    return "as a convolution" if name == "ConvTranspose" else "by the fallback importer"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table of operators to the file of the first argument, else to standard output.

    ``arguments`` are those of the command line, by default of this process. Returns exit code 0.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given:
        Path(given[0]).write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
