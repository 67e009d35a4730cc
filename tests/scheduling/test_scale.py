"""Large graphs: nothing in scheduling may grow with the square of their size."""

from __future__ import annotations

import random
import time

from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import GraphMaker


def wide_and_deep(num_operators: int, num_rtasks: int, width: int = 8) -> TaskGraph:
    """Return lanes of operators on vectors that read their neighbours' halos now and then."""
    rng = random.Random(0)
    maker = GraphMaker()
    size = num_rtasks * 4
    lanes = [maker.tensor(size, kind="input") for _ in range(width)]
    for number in range(num_operators):
        x, other = lanes[number % width], rng.choice(lanes)
        if number % 3:
            y = maker.stencil(x, 1, (4,))
        else:
            y = maker.elementwise(x, other, tile=(4,))
        lanes[number % width] = y
    for x in lanes:
        maker.output(x, (4,))
    return maker.graph()


def test_thousands_of_operators() -> None:
    """2,000 operators of 50 rTasks; a limit far above what is needed, against quadratic code."""
    graph = wide_and_deep(2000, 50)
    start = time.process_time()
    plan = get_policy("wavefront").schedule(graph, cpu_device(8))
    least = minimize(plan)
    verify(graph, least, plan_memory(graph, least).offsets)
    assert time.process_time() - start < 60
    assert least.num_waits == plan.num_waits > 0
