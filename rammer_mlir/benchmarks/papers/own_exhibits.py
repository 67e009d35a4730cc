"""Define exhibits of our own, which are not in the papers.

The exhibits compare:

- the predicted time of one program that runs several models together with the times of the models
  one after another
- the simulator's predicted times of programs with measured times
- the predicted times of all policies with each other and with a lower bound on the time
"""

from __future__ import annotations

from statistics import fmean, geometric_mean

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.papers import joint, policies, simulator
from rammer_mlir.benchmarks.papers.exhibit import Exhibit, ms, percent, ratio
from rammer_mlir.benchmarks.papers.policies import POLICIES
from rammer_mlir.benchmarks.papers.study import Record, Records


def _found(records: Records) -> list[tuple[policies.Comparison, Record]]:
    cases = policies.STUDY.cases
    return [(case, records.of(policies.STUDY.name, case.key)) for case in cases]


def _each(records: Records) -> str:
    rows = [["model", "batch", "device", "rTasks", *POLICIES, "bound", "best over bound"]]
    for case, found in _found(records):
        times = found["ms"]
        best = min(times.values())
        cells = (f"**{ms(t)}**" if t <= best * 1.0001 else ms(t) for t in times.values())
        over = percent(best / found["bound"] - 1)
        rows.append([
            case.model, str(case.batch), case.device_name, str(found["rtasks"]), *cells,
            ms(found["bound"]), over,
        ])  # fmt: skip
    return table(rows)


def _by_device(records: Records) -> str:
    rows = [["device", "models", *(f"{name} over best" for name in POLICIES), "best over bound"]]
    found = [(case.device_name, one) for case, one in _found(records) if case.batch == 1]
    for device in dict.fromkeys(name for name, _ in found):
        runs = [one for name, one in found if name == device]
        best = [min(one["ms"].values()) for one in runs]
        means = (
            ratio(geometric_mean(one["ms"][name] / b for one, b in zip(runs, best, strict=True)))
            for name in POLICIES
        )
        over = geometric_mean(b / one["bound"] for one, b in zip(runs, best, strict=True))
        rows.append([device, str(len(runs)), *means, ratio(over)])
    return table(rows)


def _body(records: Records) -> str:
    return f"Geometric means, batch 1:\n\n{_by_device(records)}\n\n{_each(records)}"


def _joint(records: Records) -> str:
    rows = [["models", "one after the other ms", "together ms", "ratio", "longest alone ms"]]
    for case in joint.STUDY.cases:
        found = records.of(joint.STUDY.name, case.key)
        alone, both = found["alone"], found["together"]
        cells = (ms(alone), ms(both), ratio(alone / both), ms(found["longest"]))
        rows.append([" + ".join(case.models), *cells])
    return table(rows)


def _simulator(records: Records) -> str:
    found = records.of(simulator.STUDY.name, simulator.Programs().key)["programs"]
    rows = [["model", "operators", "measured ms", "measured rKernels: ms", "error",
             "description alone: ms", "error"]]  # fmt: skip
    errors: dict[str, list[float]] = {"profiled": [], "modelled": []}
    for one in found:
        cells = [one["model"], str(one["operators"]), ms(1e3 * one["measured"])]
        for name, off in errors.items():
            off.append(one[name] / one["measured"] - 1)
            cells += [ms(1e3 * one[name]), f"{off[-1]:+.0%}"]
        rows.append(cells)
    for title, of in (("mean error", fmean), ("furthest", max)):
        cells = (["", percent(of(map(abs, off)))] for off in errors.values())
        rows.append([title, "", "", *(cell for pair in cells for cell in pair)])
    return table(rows)


EXHIBITS = (
    Exhibit(
        "Joint models", "Independent models in one program", "predicted", (joint.STUDY.name,),
        "on the V100's description, 80 vEUs, policy `wavefront`, batch 1", _joint,
        "RAMMER's section 6 calls rTasks of several jobs on a device an interesting topic, "
        "without numbers.",
    ),
    Exhibit(
        "Simulator", "Predicted against measured time of whole programs", "measured",
        (simulator.STUDY.name,),
        "one vEU, policy `wavefront`; the plan is replayed with a model of the vEU's cache, with "
        "measured rKernels and with the figures that `this_cpu` found, in the same minutes",
        _simulator,
        "A program is timed by its thread's processor time; other processes still take bandwidth "
        "and last-level cache, of rKernels while they are measured and of the program. More "
        "models, and two vEUs: `python -m rammer_mlir.benchmarks --parts prediction`.",
    ),
    Exhibit(
        "Policies", "Every policy on every kind of device", "predicted", (policies.STUDY.name,),
        "milliseconds on the devices' descriptions; the CPU's number is that of its vEUs; in bold "
        "the fastest; no schedule with the fastest plan's rKernels in one launch is below the "
        "bound", _body,
        "A bound is not always reachable: it knows of paths, work and packing, not of placement.",
    ),
)  # fmt: skip
