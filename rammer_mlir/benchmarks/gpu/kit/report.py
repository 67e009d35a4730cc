"""Make tables of a kit's results: models, baselines in PyTorch, and predicted times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rammer_mlir.benchmarks.gpu.kit.cases import BASELINES, WAYS, Case
from rammer_mlir.benchmarks.gpu.kit.manifest import Kit
from rammer_mlir.benchmarks.gpu.kit.results import Result, Status
from rammer_mlir.benchmarks.machine import table

_NONE = "-"


def report(kit: Kit, results: Mapping[str, Result]) -> str:
    """Return Markdown tables of a kit's results; ``results`` maps names of cases to results."""
    parts = [
        _machine(kit, results),
        _section("Products of two inputs", _products(kit, results)),
        _section("Networks, ms of a graph's replay on the device", _networks(kit, results)),
        _section("Programs: predicted, measured, and the floor", _programs(kit, results)),
        _section("Hand-offs and reads", _probe(results.get("probe", {}))),
        _section("Sanitizers", _sanitizers(kit, results)),
        _section("Cases that are not fine, or left", _others(kit, results)),
    ]
    return "\n\n".join(part for part in parts if part)


def device_median(result: Mapping[str, Any] | None) -> float | None:
    """Return the median seconds of a run in a case, as the GPU's clock measured them.

    ``result`` is the case's result. If the case timed runs in a CUDA graph, the returned time is of
    a run in the graph, else of a launch. The returned value is None if the case has no result,
    failed, or was not timed.
    """
    if result is None or result["status"] != Status.OK:
        return None
    timed = result.get("graph", result).get("device")
    return None if timed is None else float(timed["median"])


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"## {title}\n\n{table(rows)}" if len(rows) > 1 else ""


def _machine(kit: Kit, results: Mapping[str, Result]) -> str:
    made = f"Kit for {kit.target}, packed on {kit.made.get('date')}."
    found = results.get("machine")
    if found is None or found["status"] != Status.OK:
        return made
    packages = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    return (
        f"{found['device']}, CUDA {found['driver']}, {found['system']}, Python {found['python']}, "
        f"{packages}. {made}"
    )


def _cases(kit: Kit, kind: str) -> Iterator[Case]:
    return (case for case in kit.cases if case.kind == kind)


def _by_way(kit: Kit, kind: str, subject: str, results: Mapping[str, Result]) -> dict[str, float]:
    """Return, for each way of running the model ``subject``, the median seconds of a run.

    A way is the key of a set of compiler options, or a way in which PyTorch runs the model. The
    seconds are those that the GPU's clock measured. Only cases of the kind ``kind`` count; ways
    without a measured time are left out.
    """
    cases = [case for case in _cases(kit, kind) if case.subject == subject]
    times = {case.way: device_median(results.get(case.name)) for case in cases}
    return {way: seconds for way, seconds in times.items() if seconds is not None}


def _milliseconds(seconds: float | None) -> str:
    return f"{seconds * 1e3:.4f}" if seconds else _NONE


def _ratio(baseline: float | None, ours: float | None) -> str:
    return f"{baseline / ours:.2f}" if baseline and ours else _NONE


def _least(times: Mapping[str, float]) -> float | None:
    return min(times.values(), default=None)


def _products(kit: Kit, results: Mapping[str, Result]) -> list[list[str]]:
    rows = [["product", "predicted us", "floor us", "measured us", "TFLOP/s", "GB/s", "PyTorch us",
             "PyTorch over ours"]]  # fmt: skip
    for case in _cases(kit, "program"):
        if not kit.models[case.subject].product:
            continue
        facts, result = kit.programs[case.program], results.get(case.name)
        seconds = device_median(result)
        baseline = _least(_by_way(kit, "torch", case.subject, results))
        floor = (result or {}).get("floor")
        rows.append([
            case.subject.removeprefix("product-"), *map(_micro, (facts.predicted, floor, seconds)),
            f"{facts.operations / seconds / 1e12:.2f}" if seconds else _NONE,
            f"{facts.num_bytes / seconds / 1e9:.0f}" if seconds else _NONE,
            _micro(baseline), _ratio(baseline, seconds),
        ])  # fmt: skip
    return rows


def _micro(seconds: float | None) -> str:
    return f"{seconds * 1e6:.2f}" if seconds else _NONE


def _networks(kit: Kit, results: Mapping[str, Result]) -> list[list[str]]:
    torch = [f"PyTorch {way}" for way in BASELINES]
    rows = [["model", *WAYS, *torch, "best baseline over best of ours"]]
    for subject, model in kit.models.items():
        if not model.graph:
            continue
        ours = _by_way(kit, "program", subject, results)
        theirs = _by_way(kit, "torch", subject, results)
        own_baseline = {k: v for k, v in ours.items() if k == "per-operator"}
        whole = {k: v for k, v in ours.items() if k not in own_baseline}
        rows.append([
            subject, *(_milliseconds(ours.get(way)) for way in WAYS),
            *(_milliseconds(theirs.get(way)) for way in BASELINES),
            _ratio(_least({**theirs, **own_baseline}), _least(whole)),
        ])  # fmt: skip
    return rows


def _programs(kit: Kit, results: Mapping[str, Result]) -> list[list[str]]:
    rows = [["program", "vEUs", "predicted us", "floor us", "graph us", "launched us",
             "launched, host's clock us", "worst error in its tolerance"]]  # fmt: skip
    for case in _cases(kit, "program"):
        result = results.get(case.name)
        if result is None or result["status"] != Status.OK or kit.models[case.subject].product:
            continue
        facts, launched = kit.programs[case.program], result.get("launch", {})
        rows.append([
            case.program, str(facts.num_veus),
            *map(_micro, (
                facts.predicted, result.get("floor"), device_median(result),
                launched.get("device", {}).get("median"), launched.get("wall", {}).get("median"),
            )),
            f"{result['excess']:.3g}",
        ])  # fmt: skip
    return rows


def _probe(result: Mapping[str, Any]) -> list[list[str]]:
    rows = [["measured", "blocks", "figure"]]
    if "reads" not in result:
        return rows
    rows.append(["loads from shared addresses that wrap", "1",
                 f"{result['wrong_shared_loads']} wrong"])  # fmt: skip
    for read in result["reads"]:
        place = "cache" if read["in_cache"] else "memory"
        rows.append([
            f"{read['loads']} loads of 16 bytes in flight, {place}", str(read["blocks"]),
            f"{read['bytes'] / read['seconds'] / 1e9:.1f} GB/s",
        ])  # fmt: skip
    for hand_off in result["hand_offs"]:
        right = "" if hand_off["right"] else ", wrong numbers"
        figure = f"{hand_off['seconds'] * 1e9:.0f} ns{right}"
        rows.append([f"hand-off, {hand_off['poll']}", str(hand_off["blocks"]), figure])
    blocks = str(result["attributes"]["MULTIPROCESSOR_COUNT"])
    rows.append(["barrier of all blocks", blocks, f"{result['meeting_seconds'] * 1e9:.0f} ns"])
    return rows


def _sanitizers(kit: Kit, results: Mapping[str, Result]) -> list[list[str]]:
    rows = [["program", "tool", "found"]]
    found: Callable[[Case], Result | None] = lambda case: results.get(case.name)  # noqa: E731
    rows += [
        [case.program, case.way, result["status"]]
        for case in _cases(kit, "sanitizer")
        if (result := found(case)) is not None
    ]
    return rows


def _others(kit: Kit, results: Mapping[str, Result]) -> list[list[str]]:
    rows = [["case", "status", "message"]]
    for case in kit.cases:
        result = results.get(case.name, {"status": "left"})
        if result["status"] != Status.OK:
            message = str(result.get("message", "")).replace("|", "\\|").replace("\n", " ")
            rows.append([case.name, result["status"], message])
    return rows
