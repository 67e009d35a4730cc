"""Make the Markdown page that reports the measurements of code generators.

The page has our measurements beside the numbers of the paper "Bring Your Own Codegen".
"""

from __future__ import annotations

from collections.abc import Iterator

from rammer_mlir.benchmarks.contenders.offloaded import RunSeconds
from rammer_mlir.benchmarks.contenders.table import REFERENCE
from rammer_mlir.benchmarks.machine import machine, table
from rammer_mlir.benchmarks.offload.measure import (
    ALWAYS,
    HOST,
    OffloadResult,
    Outcome,
)
from rammer_mlir.benchmarks.offload.paper import INITIALIZATION, INTEGRATIONS, PUBLISHED
from rammer_mlir.benchmarks.offload.verdict import error_text, failures, summary, verdict_table

Results = list[OffloadResult]
Triples = Iterator[tuple[str, str, Outcome]]

DIFFERENCES = """\
- The paper's accelerators are other devices than their hosts: a GPU under TensorRT beside untuned
  kernels of TVM, and FPGAs beside CPUs. Here code generators are libraries and compilers for the
  processor that the host runs on too, and the host is a compiler of its own. A region is one
  rTask on one vEU, as the engines get one thread: a network of one region leaves the other vEUs
  idle, so that all offloaded takes twice as long as the same code on both.
- The paper counts nodes of Relay. Here operations with a known meaning count, as they are before
  anything is fused, each element-wise operator by itself; of detectors, each step of the host too.
- Weights are random. SSD 512 has the 20 classes of VOC, SSD 300 the 80 of COCO; Faster R-CNN has a
  pyramid of features, 512x512 pixels and 300 proposals. The paper says none of this of its models.
- The host suppresses boxes and sorts long rows of scores. These divide a detector into programs,
  and no region reaches over such a step.
- Regions without cost-based partitioning come from an exact merging rule, not from a greedy one.
- Code of regions is made when compiling. Engines that take a graph are built before the first run,
  of which this is a part here.
- Nothing is quantized, and both sides share memory: there is no transfer. Copies are rTasks of the
  host that only move data, all of them, whoever needs them.
- The paper has latencies without cost-based partitioning; here there is only one way to partition.
- Results of detectors change by steps where rounding swaps two scores: the table says how many
  detections of ONNX Runtime's there are too, with the same label, within 2 pixels and 0.01."""


SHARES = (
    "Shares in percent of operations with a known meaning, of all operations, and of "
    "multiply-adds; speedup of all offloaded over the host. Paper: TensorRT on Jetson."
)
SPENT = (
    "Shares of the fastest recorded run in percent, means over vEUs: rTasks of the code generator, "
    "of the host, those that only copy, waits and launches, and what happens between programs. "
    "Paper: U250 transfer 6, invocation about 20; Zynq 3 for both."
)
RATIOS = (
    "The words host and always mark choices of no region and of all: the program is then that of "
    "the other column, whose latency counts."
)
BEGINNING = "Seconds; the paper's TensorRT built an engine in {:.0f} to {:.0f}."


def page(results: Results) -> str:
    """Return the page of results in Markdown."""
    parts = [
        *_heading(results),
        *("## Offloaded share of each model, and latency", SHARES, offload_table(results)),
        "The paper on FPGAs: speedup, share of nodes and of multiply-adds in percent.",
        fpga_table(results),
        *("## Regions without and with cost-based partitioning", region_table(results)),
        *("## Time of a run by kind of work, all regions offloaded", SPENT, time_table(results)),
        *(
            "## Time to compile, and of the first run",
            BEGINNING.format(*INITIALIZATION),
            beginning_table(results),
        ),
        *("## Lines of an integration", line_table(results)),
        *("## Choice by cost", summary(results), RATIOS, verdict_table(results)),
        *("## Differences from the paper's measurements, and their reasons", DIFFERENCES),
    ]
    if failed := failures(results):
        parts += ["## Not measured", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"


def _heading(results: Results) -> list[str]:
    ran = ", ".join(f"{key} {value}" for key, value in machine().items() if value is not None)
    threads = ", ".join(sorted({str(result.request.threads) for result in results}))
    scales = ", ".join(sorted({result.request.scale for result in results}))
    how = (
        f"`make offload-evaluation`; {ran}; threads {threads}, {scales} size. Latencies are "
        "medians [quartiles] in ms, all contenders in turns, each in a process of its own. Ratios "
        "compare runs of the same round of turns, so that they may differ from quotients of the "
        "medians. All programs are compiled with `--costs measured`."
    )
    return ["# Code generators beside the paper's", how]


def _triples(results: Results) -> Triples:
    """Yield a triple for each model and code generator.

    A triple has the name of the model, the name and options of the code generator, and the outcome.
    """
    for result in results:
        for outcome in result.outcomes:
            yield result.request.model, result.request.title(outcome.codegen), outcome


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}" if whole else "-"


def offload_table(results: Results) -> str:
    """Return a Markdown table of shares and latencies, with a row per model and code generator.

    A row has the share of the model that the code generator computes, latencies, and speedups.
    """
    rows = [[
        "model", "code generator", "known", "all", "MACs", f"{REFERENCE} ms", "host ms",
        "all offloaded ms", "speedup", "error", "paper: nodes", "paper: f32, f16",
    ]]  # fmt: skip
    for model, codegen, outcome in _triples(results):
        published = PUBLISHED.get(model)
        paper = ["-", "-"]
        if published is not None:
            paper = [str(published.nodes), "{:.2f}, {:.2f}".format(*published.jetson)]
        rows.append([model, codegen, *_shares(outcome), *_latencies(outcome), *paper])
    return table(rows)


def _shares(outcome: Outcome) -> list[str]:
    found = outcome.partition
    if found is None:
        return ["-"] * 3
    return [
        _percent(found.taken, found.readings),
        _percent(found.taken, found.operations),
        _percent(found.taken_macs, found.macs),
    ]


def _latencies(outcome: Outcome) -> list[str]:
    runs = [outcome.run(name) for name in (REFERENCE, HOST, ALWAYS)]
    cells = ["-" if run is None else str(run.latency) for run in runs]
    host, always = outcome.seconds(HOST), outcome.seconds(ALWAYS)
    speedup = "-" if host is None or always is None else f"{host / always:.2f}"
    return [*cells, speedup, error_text(outcome.run(ALWAYS))]


def fpga_table(results: Results) -> str:
    """Return a Markdown table of results that "Bring Your Own Codegen" published for two FPGAs.

    It has a row per model. A cell has the speedup, and the percentages of nodes and of
    multiply-adds that are offloaded.
    """
    rows = [["model", "U250", "Zynq"]]
    for name in dict.fromkeys(result.request.model for result in results):
        if name in PUBLISHED:
            found = (PUBLISHED[name].u250, PUBLISHED[name].zynq)
            rows.append([name, *("-" if f is None else "{:.2f}, {}, {}".format(*f) for f in found)])
    return table(rows)


def region_table(results: Results) -> str:
    """Return a Markdown table of the counts of regions, with a row per model and code generator.

    A row has the counts without and with cost-based partitioning, and the count of compiled
    regions.
    """
    rows = [["model", "code generator", "without", "with", "compiled", "paper", "paper ms"]]
    for model, codegen, outcome in _triples(results):
        found, published = outcome.partition, PUBLISHED.get(model)
        counts = ["-"] * 3
        if found is not None:
            counts = [str(found.merged), str(found.split), str(found.generated)]
        paper = ["-", "-"]
        if published is not None:
            paper = [
                f"{published.merged} to {published.split}",
                f"{published.merged_ms:.2f} to {published.split_ms:.2f}",
            ]
        rows.append([model, codegen, *counts, *paper])
    return table(rows)


def time_table(results: Results) -> str:
    """Return a Markdown table of the time of a run, with a row per model and code generator.

    All regions are offloaded. A row has the time in ms, and its shares in percent by kind of work,
    such as copies and waits.
    """
    rows = [["model", "code generator", "ms", "generated", "host", "copies", "waits, launches",
             "between programs", "rTasks"]]  # fmt: skip
    for model, codegen, outcome in _triples(results):
        run = outcome.run(ALWAYS)
        if run is not None and run.spent is not None:
            rows.append([model, codegen, *_spent_cells(run.spent)])
    return table(rows)


def _spent_cells(spent: RunSeconds) -> list[str]:
    parts = (spent.foreign, spent.own, spent.copies, spent.invocation, spent.host)
    shares = [_percent(part, spent.total) for part in parts]
    return [f"{1e3 * spent.total:.3f}", *shares, str(spent.rtasks)]


def beginning_table(results: Results) -> str:
    """Return a Markdown table of startup times, with a row per model and code generator.

    A row has the seconds of code generation, of compiling with and without the code generator, of
    the first run, and of a later run.
    """
    rows = [["model", "code generator", "making code", "compiling", "host's compiling",
             "first run", "later run"]]  # fmt: skip
    for model, codegen, outcome in _triples(results):
        made = "-" if outcome.partition is None else f"{outcome.partition.seconds:.1f}"
        host, always = outcome.run(HOST), outcome.run(ALWAYS)
        cells = ["-"] * 4
        if host and always and host.beginning and always.beginning:
            begun = always.beginning
            cells = [f"{begun.compiling:.1f}", f"{host.beginning.compiling:.1f}",
                     f"{begun.first_run:.3g}", f"{always.latency.median:.3g}"]  # fmt: skip
        rows.append([model, codegen, made, *cells])
    return table(rows)


def line_table(results: Results) -> str:
    """Return a Markdown table of the lines of code that integrate each code generator.

    Our code generators come first, then those of the paper "Bring Your Own Codegen".
    """
    own = {
        outcome.codegen: outcome.partition.lines
        for _, _, outcome in _triples(results)
        if outcome.partition is not None
    }
    rows = [["integration", "lines"], *([name, str(n)] for name, n in own.items())]
    return table([*rows, *([f"paper: {name}", str(n)] for name, n in INTEGRATIONS.items())])
