"""Make the Markdown page of all exhibits: figures and tables of papers, and tables of our own."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.benchmarks.papers import own_exhibits
from rammer_mlir.benchmarks.papers.catalog import STUDIES
from rammer_mlir.benchmarks.papers.exhibit import Exhibit, Plot
from rammer_mlir.benchmarks.papers.ios import exhibits as ios
from rammer_mlir.benchmarks.papers.rammer import exhibits as rammer
from rammer_mlir.benchmarks.papers.study import Records

SECTIONS: dict[str, Sequence[Exhibit]] = {
    "RAMMER (OSDI 2020)": rammer.EXHIBITS,
    "IOS (MLSys 2021)": ios.EXHIBITS,
    "Beyond the papers": own_exhibits.EXHIBITS,
}

PLOTS = "papers"
"""The folder of plots, beside the page."""

_HEAD = """# The papers' figures and tables, made again

`make papers` measures, predicts and counts all of this page, writes the numbers to `papers.json`,
and makes the page of them. Nothing was executed on a GPU or an IPU: *predicted* numbers come from
the simulator and a description of the device (`rammer_mlir/scheduling/devices`), and every plan is
checked by the schedule verifier; *measured* numbers are from the named processor; *counted* numbers
need neither. The papers' own numbers are from their texts and from RAMMER's published artifact
data. Dali's figures are in `rammer_mlir/benchmarks/results/fusion.md`; `make offload-evaluation`
makes those of "Bring Your Own Codegen".
"""


def page(records: Records) -> str:
    """Return the Markdown page of all exhibits (figures and tables).

    ``records`` has the records of all studies. An exhibit without records is marked as not
    measured.
    """
    parts = [_HEAD, _contents(records)]
    for title, exhibits in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_section(exhibit, records) for exhibit in exhibits]
    return "\n".join(parts)


def plots(records: Records) -> list[Plot]:
    """Return the bar charts of all exhibits that are measured, in the order of the page."""
    every = (exhibit for exhibits in SECTIONS.values() for exhibit in exhibits)
    return [
        exhibit.plot(records)
        for exhibit in every
        if exhibit.plot is not None and is_measured(exhibit, records)
    ]


def is_measured(exhibit: Exhibit, records: Records) -> bool:
    """Whether there is a record for each full-size case of each study that an exhibit shows."""
    return all(
        records.get(study.name, case.key, {})
        for study in STUDIES
        if study.name in exhibit.studies
        for case in study.cases
    )


def _contents(records: Records) -> str:
    rows = ["| | exhibit | subject | numbers |", "|---|---|---|---|"]
    rows += [
        f"| {title} | {exhibit.name} | {exhibit.title} | {_state(exhibit, records)} |"
        for title, exhibits in SECTIONS.items()
        for exhibit in exhibits
    ]
    return "\n".join(rows) + "\n"


def _state(exhibit: Exhibit, records: Records) -> str:
    if exhibit.body is None or is_measured(exhibit, records):
        return exhibit.basis
    return "not measured so far"


def _section(exhibit: Exhibit, records: Records) -> str:
    lines = [f"### {exhibit.name}: {exhibit.title}\n"]
    if exhibit.body is None:
        return "\n".join([*lines, f"Not repeated: {exhibit.remark}\n"])
    if not is_measured(exhibit, records):
        studies = " ".join(f"'{name}'" for name in exhibit.studies)
        command = f"python -m rammer_mlir.benchmarks.papers {studies} --missing"
        return "\n".join([*lines, f"Not measured so far: `{command}` does it.\n"])
    origin = f"({_origin(exhibit, records)})"
    setting = exhibit.setting or "no device is needed"
    lines.append(f"{exhibit.basis.capitalize()}: {setting} {origin}.\n")
    if exhibit.plot is not None:
        plot = exhibit.plot(records)
        lines.append(f"![{plot.unit}]({PLOTS}/{plot.name}.svg)\n")
    lines.append(exhibit.body(records) + "\n")
    if exhibit.remark:
        lines.append(f"{exhibit.remark}\n")
    return "\n".join(lines)


def _origin(exhibit: Exhibit, records: Records) -> str:
    """Return the origin of an exhibit's records as text: commits and dates.

    For measured times, the text also names the processors.
    """
    found = [
        record for study in exhibit.studies for record in records.studies.get(study, {}).values()
    ]
    names = ("commit", "date", *(("processor",) if exhibit.basis == "measured" else ()))
    return "; ".join(
        f"{name} {', '.join(sorted({str(record.get(name)) for record in found}))}" for name in names
    )
