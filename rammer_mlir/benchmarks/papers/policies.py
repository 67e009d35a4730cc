"""Predict the time of models with every policy on several devices, and a lower bound of this time.

The times are simulated; the bound is computed from the same costs of rTasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.lower_bounds import makespan_bound
from rammer_mlir.scheduling.simulated_plan import executed_plan
from rammer_mlir.scheduling.tasks import task_table
from rammer_mlir.scheduling.verifier import verify

POLICIES = ("sequential", "wavefront", "ios", "list", "auto")
MODELS = (
    "squeezenet", "inception_v3", "nasnet_a_6_768", "lstm_bidirectional", "transformer_4_layers",
)  # fmt: skip
GPUS = ("v100", "a100", "h100", "mi300x")
CORES = (2, 8, 64)
BATCHES = (1, 16)


@dataclass(frozen=True)
class Comparison:
    """A case of the study: a model on a device.

    ``num_veus`` is the number of vEUs; 0 stands for a vEU per core of a CPU or per multiprocessor
    of a GPU.
    """

    model: str
    device: str
    num_veus: int = 0
    batch: int = 1
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the model, batch size and device, and the scale unless it is "full"."""
        small = "" if self.scale == "full" else f", {self.scale}"
        return f"{self.model}, batch {self.batch}, {self.device_name}{small}"

    @property
    def device_name(self) -> str:
        """The device's name, followed by ``num_veus`` unless it is 0, such as "cpu 8"."""
        return f"{self.device} {self.num_veus}" if self.num_veus else self.device


def measure(request: Comparison) -> Record:
    """Predict the time of a model with each policy, and compute a lower bound of the time.

    The plan (schedule) of each policy is verified.

    Returns:
        A record with these keys:

        - "ms": the predicted milliseconds, keyed by policy.
        - "rtasks": the number of rTasks.
        - "bound": a lower bound in milliseconds for every schedule that is a single launch
          and uses the rKernels of the fastest plan.
    """
    description = find_device(request.device)
    device = description.device(request.num_veus or None)
    options = check_options(
        description.targets[0], policy="wavefront", num_veus=device.num_veus, costs=request.device
    )
    model = build(request.model, request.batch, request.scale)
    graph = Compilation.of_model(model, options).task_graph()
    plans = {name: executed_plan(get_policy(name), graph, device) for name in POLICIES}
    for plan in plans.values():
        verify(graph, plan)
    best = min(plans.values(), key=lambda plan: plan.predicted_seconds)
    table = task_table(graph, device, best.kernels)
    bound = makespan_bound(table, device.num_veus, device.barrier_seconds) + device.launch_seconds
    return {
        "ms": {name: 1e3 * plan.predicted_seconds for name, plan in plans.items()},
        "rtasks": len(table.seconds),
        "bound": 1e3 * bound,
    }


STUDY = Study(
    "policies",
    measure,
    cases=(
        *(Comparison(model, "cpu", cores) for cores, model in product(CORES, MODELS)),
        *(Comparison(model, gpu) for gpu, model in product(GPUS, MODELS)),
        *(Comparison(model, "h100", batch=16) for model in ("squeezenet", "inception_v3")),
    ),
    quick=(Comparison("squeezenet", "h100", scale="small"), Comparison("mlp", "cpu", 2)),
)
