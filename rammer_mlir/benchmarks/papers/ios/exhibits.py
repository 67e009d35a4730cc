"""Reproduce IOS's figures and tables from the records of studies."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.papers.exhibit import Exhibit, Plot, ms, percent, ratio
from rammer_mlir.benchmarks.papers.ios import (
    batches,
    blocks,
    counts,
    example,
    pruning,
    strategies,
)
from rammer_mlir.benchmarks.papers.ios.strategies import NETWORKS, SCHEDULES, Network
from rammer_mlir.benchmarks.papers.study import Record, Records

_PAPERS_SCHEDULES = ("sequential", "greedy", "merge", "parallel", "both")

_MFLOPS = {"vgg19": "2330", "nasnet_a_6_4032": "82"}
"""Mean MFLOPs of a convolution in the paper, for the networks in its text."""

_TABLE_2 = {
    "inception_v3": (11, 119), "randwire": (3, 120), "nasnet_a_6_4032": (13, 374),
    "squeezenet": (10, 50),
}  # fmt: skip
"""Number of blocks and number of operators of each network in IOS's table 2."""

_TABLE_1_BOUNDS = {
    "Inception v3": "2.6e4", "RandWire": "3.7e9", "NASNet": "5.2e6", "SqueezeNet": "2.2e2",
}  # fmt: skip


def _figure_1(records: Records) -> str:
    rows = [["network", "convolutions", "MFLOPs of a convolution, mean", "paper"]]
    for case in counts.CONVOLUTION_STUDY.cases:
        found = records.of(counts.CONVOLUTION_STUDY.name, case.key)
        paper = _MFLOPS.get(case.model, "-")
        rows.append([case.model, str(found["convolutions"]), f"{found['mflops']:.0f}", paper])
    return table(rows)


def _example(records: Records) -> Record:
    return records.of(example.STUDY.name, example.Example().key)


def _figure_2(records: Records) -> str:
    rows = [["schedule", "stages", "ms", "utilization", "paper: ms", "utilization"]]
    papers = {"sequential": ("0.48", "48%"), "greedy": ("0.37", "62%"), "ios": ("0.33", "70%")}
    for name, paper in papers.items():
        found = _example(records)[name]
        stages = str(len(found["stages"]))
        rows.append([name, stages, ms(found["ms"]), percent(found["utilization"]), *paper])
    return table(rows)


def _figure_5(records: Records) -> str:
    found = records.of(counts.BLOCK_STUDY.name, counts.FIGURE_5.key)
    rows = [
        ["operators", "width", "bound on transitions", "transitions", "schedules"],
        [str(found["operators"]), str(found["width"]), f"{found['bound']:.1f}",
         str(found["transitions"]), str(found["schedules"])],
    ]  # fmt: skip
    return table(rows)


def _table_1(records: Records) -> str:
    rows = [["network", "operators", "width", "bound", "paper", "transitions", "paper",
             "schedules", "paper"]]  # fmt: skip
    for block in counts.BLOCKS:
        found = records.of(counts.BLOCK_STUDY.name, block.key)
        rows.append([
            block.network, str(found["operators"]), str(found["width"]), f"{found['bound']:.1e}",
            _TABLE_1_BOUNDS[block.network], str(found["transitions"]), block.transitions,
            f"{found['schedules']:.4g}", block.schedules,
        ])  # fmt: skip
    return table(rows)


def _network(records: Records, model: str, device: str = "v100") -> Record:
    return records.of(strategies.STUDY.name, Network(model, device).key)


def _table_2(records: Records) -> str:
    rows = [["network", "units", "blocks", "distinct", "cut", "stages", "paper: operators",
             "blocks"]]  # fmt: skip
    for model, (papers_blocks, operators) in _TABLE_2.items():
        found = _network(records, model)["search"]
        numbers = (found[name] for name in ("units", "blocks", "distinct", "cut", "stages"))
        rows.append([model, *map(str, numbers), str(operators), str(papers_blocks)])
    return table(rows)


def _schedules(records: Records, device: str) -> str:
    rows = [["network", *SCHEDULES]]
    for model in NETWORKS:
        found = _network(records, model, device)["ms"]
        first = found["sequential"]
        cells = (f"{ms(value)} ({ratio(first / value)})" for value in found.values())
        rows.append([model, *cells])
    return table(rows)


def _figure_6(records: Records) -> str:
    return _schedules(records, "v100")


def _figure_14(records: Records) -> str:
    return _schedules(records, "rtx2080ti")


def _plot_6(records: Records) -> Plot:
    groups: list[tuple[str, tuple[float | None, ...]]] = []
    for model in NETWORKS:
        found = _network(records, model)["ms"]
        best = min(found[name] for name in _PAPERS_SCHEDULES)
        groups.append((model, tuple(best / found[name] for name in _PAPERS_SCHEDULES)))
    unit = "throughput, normalized to the best"
    return Plot("ios-figure-6", unit, _PAPERS_SCHEDULES, tuple(groups))


def _figure_8(records: Records) -> str:
    found = _example(records)
    busy = {name: found[name]["busy veus"] for name in ("sequential", "ios")}
    gain = busy["ios"] / busy["sequential"] - 1
    rows = [
        ["schedule", "busy vEUs, mean"],
        *([name, f"{value:.1f} of 80"] for name, value in busy.items()),
        ["more", f"{gain:+.0%} (paper, active warps: +58%)"],
    ]
    return table(rows)


def _figure_9(records: Records) -> str:
    rows = [["network", "r", "s", "ms", "speed-up", "transitions", "search s"]]
    for case in pruning.STUDY.cases:
        found = records.of(pruning.STUDY.name, case.key)
        for one in found["pruned"]:
            rows.append([
                case.model, str(one["r"]), str(one["s"]), ms(one["ms"]),
                ratio(found["sequential"] / one["ms"]), str(one["transitions"]),
                f"{one['search seconds']:.1f}",
            ])  # fmt: skip
    rows.append(["paper: inception_v3", "1", "8", "", "1.59", "", "at most 30"])
    rows.append(["paper: nasnet", "1", "8", "", "1.37", "", "at most 1,080"])
    return table(rows)


def _crossed(names: Sequence[str], seconds: Sequence[Sequence[float]]) -> str:
    """Return a Markdown table of the times of each set of stages on each setting.

    A setting is a batch size or a device. A row is the setting of the execution, a column the
    setting for which the stages were found. A cell has the milliseconds, and the slowdown in
    percent compared with the stages that were found for the setting of the row.

    Args:
        names: names of the settings, for example batch sizes.
        seconds: the times by row and column.
    """
    rows = [["executed on", *(f"made for {name}" for name in names)]]
    for number, (name, row) in enumerate(zip(names, seconds, strict=True)):
        own = row[number]
        rows.append([name, *(f"{ms(1e3 * value)} ({value / own - 1:+.1%})" for value in row)])
    return table(rows)


def _batches(records: Records) -> Record:
    return records.of(batches.BATCH_STUDY.name, batches.Batches().key)


def _table_3(records: Records) -> str:
    found = _batches(records)
    sizes = [f"batch {batch}" for batch in found["specialized"]]
    devices = records.of(batches.DEVICE_STUDY.name, batches.Devices().key)
    return f"{_crossed(sizes, found['cross'])}\n\n{_crossed(devices['devices'], devices['cross'])}"


def _figure_10(records: Records) -> str:
    found = _batches(records)
    rows = [["stage", *(f"made for batch {batch}" for batch in found["specialized"][:2])]]
    columns = [_last_block(stages) for stages in found["stages"][:2]]
    for number in range(max(map(len, columns))):
        cells = (", ".join(c[number]) if number < len(c) else "" for c in columns)
        rows.append([str(number + 1), *cells])
    return table(rows)


def _last_block(stages: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the stages of the last of a network's modules, such as the last Inception module.

    ``stages`` has the names of the operators of each stage; the part of a name before "/" is its
    module. In the result, the names lack this part. The classifier and the operators of other
    modules are left out.
    """
    name = next(
        operator.split("/")[0] for stage in reversed(stages) for operator in stage
        if "/" in operator
    )  # fmt: skip
    return [
        [operator.partition("/")[2] for operator in stage if operator.startswith(f"{name}/")]
        for stage in stages
        if any(operator.startswith(f"{name}/") for operator in stage)
    ]


def _figure_11(records: Records) -> str:
    found = _batches(records)
    rows = [["batch", "sequential, images/s", "IOS, images/s", "speed-up"]]
    for batch, before, after in zip(
        found["batches"], found["sequential"], found["ios"], strict=True
    ):
        throughputs = (f"{batch / seconds:.0f}" for seconds in (before, after))
        rows.append([str(batch), *throughputs, ratio(before / after)])
    return table(rows)


def _figure_12(records: Records) -> str:
    rows = [["network", "search, processor s", "states", "transitions"]]
    total = 0.0
    for model in NETWORKS:
        found = _network(records, model)
        total += found["search seconds"]
        numbers = (str(found["search"][name]) for name in ("states", "transitions"))
        rows.append([model, f"{found['search seconds']:.1f}", *numbers])
    rows.append(["all", f"{total:.1f}", "", ""])
    rows.append(["paper", "3 GPU hours (TVM: 208)", "", ""])
    return table(rows)


def _figure_16(records: Records) -> str:
    found = records.of(blocks.STUDY.name, blocks.Blocks().key)
    rows = [["block", "operators", "sequential ms", "IOS ms", "speed-up"]]
    of_blocks = zip(found["operators"], found["sequential"], found["ios"], strict=True)
    for number, (operators, before, after) in enumerate(of_blocks, start=1):
        rows.append([str(number), str(operators), ms(before), ms(after), ratio(before / after)])
    before, after = (found["network"][name] for name in ("sequential", "ios"))
    rows.append(["network", "", ms(before), ms(after), f"{ratio(before / after)} (paper: 1.6)"])
    rows.append(["paper, most", "", "", "", "2.3"])
    return table(rows)


_V100 = "on the V100's description, 80 vEUs, the paper's barrier between stages"
_STRATEGIES = strategies.STUDY.name

EXHIBITS = (
    Exhibit(
        "Figure 1", "Convolutions of networks of 2013, 2015 and 2018", "counted",
        (counts.CONVOLUTION_STUDY.name,), "from the ONNX graphs", _figure_1,
        "The paper's VGG has 16 layers, ours 19.",
    ),
    Exhibit(
        "Figure 2", "Three schedules of four convolutions", "predicted", (example.STUDY.name,),
        f"{_V100}; utilization is arithmetic over the device's peak", _figure_2,
        "The text gives ranges: 0.37 to 0.48 ms and 48% to 62% for the first two schedules. The "
        "graph is rebuilt from the figure's GFLOPs. Our rKernels for maps of 15 x 15 are "
        "predicted from the description.",
    ),
    Exhibit(
        "Figure 5", "The search on three operators", "counted", (counts.BLOCK_STUDY.name,),
        "*a* is read by *b*, *c* stands beside them; transitions and schedules as in table 1",
        _figure_5,
        "The figure is a drawing of states; the bound is the paper's formula.",
    ),
    Exhibit(
        "Figure 6", "Five schedules of four networks", "predicted", (_STRATEGIES,),
        f"{_V100}, batch 1; milliseconds, and the speed-up over sequential. The last two columns "
        "are the product's way: rTasks wait for the tiles that they read", _figure_6,
        "Merging gains nothing by our model: a merged convolution's zero-padded arithmetic costs "
        "as much as the launches it saves, and stages already hold both convolutions. A barrier "
        "between stages costs 0.42 microseconds, as within our kernels; the paper's stages end by "
        "synchronizing streams, which takes longer. With 1.5 microseconds (commit 544528d89d) the "
        "speed-ups of `both` were 1.08, 1.39, 1.53 and 1.67.",
        _plot_6,
    ),
    Exhibit(
        "Figure 7", "Frameworks on a V100", "not repeated",
        remark="TensorFlow, TASO, TVM and TensorRT on a V100. Latencies beside ONNX Runtime and "
        "OpenVINO on CPUs are in `rammer_mlir/benchmarks/results`.",
    ),
    Exhibit(
        "Figure 8", "Active warps of figure 2's schedules", "predicted", (example.STUDY.name,),
        f"{_V100}; the mean number of vEUs that execute rTasks", _figure_8,
        "The paper sampled warps, of which a busy multiprocessor may hold few or many.",
    ),
    Exhibit(
        "Figure 9", "Latency and search by the bounds r and s", "predicted",
        (pruning.STUDY.name,), f"{_V100}; the search's time is measured on a CPU", _figure_9,
        "The paper measures each stage on the device during the search, we predict it.",
    ),
    Exhibit(
        "Figure 10", "Inception v3's last block, stages for batches of 1 and of 32", "predicted",
        (batches.BATCH_STUDY.name,), _V100, _figure_10,
        "The paper's schedule for a batch of 32 has more stages than that for 1, and merges two "
        "convolutions.",
    ),
    Exhibit(
        "Figure 11", "Throughput of Inception v3 by batch size", "predicted",
        (batches.BATCH_STUDY.name,), _V100, _figure_11,
        "In the paper, too, IOS is ahead at each size, and throughput saturates at 128.",
    ),
    Exhibit(
        "Figure 12", "Cost of the search", "measured", (_STRATEGIES,),
        "processor time of one thread, stages of all units on the V100's description", _figure_12,
        "TVM's tuning needs the device. The paper's search includes measurements on the device.",
    ),
    Exhibit(
        "Figure 14", "Five schedules on an RTX 2080 Ti", "predicted", (_STRATEGIES,),
        "as for Figure 6, on the RTX 2080 Ti's description with 68 vEUs", _figure_14,
        "The paper's speed-ups of IOS over sequential are 1.1 to 1.5.",
    ),
    Exhibit(
        "Figure 15", "Frameworks on an RTX 2080 Ti", "not repeated",
        remark="TensorFlow, TASO, TVM and TensorRT on an RTX 2080 Ti.",
    ),
    Exhibit(
        "Figure 16", "Blocks of Inception v3", "predicted", (blocks.STUDY.name,),
        f"{_V100}; blocks of at least {blocks.FEWEST} rOperators between single values", _figure_16,
        "In the paper as here, later blocks gain more: they are wider and their maps smaller.",
    ),
    Exhibit(
        "Table 1", "Transitions and schedules of the largest blocks", "counted",
        (counts.BLOCK_STUDY.name,), "", _table_1,
        "To the digits that the paper prints; RandWire's random graph was found by its counts.",
    ),
    Exhibit(
        "Table 2", "Networks", "counted", (_STRATEGIES,),
        "units that the search places, of fused rOperators; all are searched", _table_2,
        "Fusion and concatenation in place leave fewer operators. Blocks are cut at single values, "
        "the paper's at modules.",
    ),
    Exhibit(
        "Table 3", "Schedules specialized for batch sizes and devices", "predicted",
        (batches.BATCH_STUDY.name, batches.DEVICE_STUDY.name),
        f"{_V100}; Inception v3, milliseconds", _table_3,
        "The paper measured 28% (batch 1) and 8% (batch 32) between such schedules. A stage's "
        "time is an estimate, in which operators wait for whole operators. Its other device is a "
        "K80.",
    ),
)  # fmt: skip
