"""`rtask-schedule`: rOperators become rPrograms: for each vEU, a list of rTasks and barriers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.ir.chunks import chunk_of
from rammer_mlir.passes.ir.code_modules import erase_unused_kernels
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.program.program_ir import OperatorCall, record_predictions, write_plan
from rammer_mlir.passes.program.task_graph import graph_of_operators
from rammer_mlir.passes.rtask_plan_memory import propose_offsets
from rammer_mlir.passes.tiling.scratch import drop_scratch
from rammer_mlir.scheduling.chunk_turns import Chunk, in_turns
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.memory_limit import limited
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.policies.policy import keeps_homes
from rammer_mlir.scheduling.supersteps import supersteps


@dataclass(frozen=True)
class Schedule(Pass):
    """Assign every rTask to a vEU at compile time by a policy (RAMMER section 3.3).

    - ``device``, a name or a file, determines the costs. If the device only supports global
      synchronization, each rProgram is a superstep.
    - ``per-operator``: each rOperator becomes a separate rProgram, as a baseline.
    - ``memory``: the bytes into which intermediates have to fit; 0 is no limit. With a limit,
      rOperators wait for the rOperators whose memory they reuse.

    Without a memory limit, at most ``num-veus`` chunks of a chain (`rtask-chunk-chains`) are in
    progress at a time. If the chunks can be distributed evenly over all vEUs, each chunk is
    computed by a single vEU.
    """

    name: ClassVar[str] = "rtask-schedule"
    takes: ClassVar[Form | None] = Form.BUFFERS

    policy: str = "wavefront"
    num_veus: int = 2
    per_operator: bool = False
    device: str = "cpu"
    memory: int = 0

    def check_options(self) -> None:
        """Raise OptionError if ``num_veus`` < 1, ``memory`` < 0, or the policy is unknown."""
        check_least(self, 1, "num_veus")
        check_least(self, 0, "memory")
        get_policy(self.policy)

    def run(self, module: ir.Module) -> None:
        """Replace the rOperators of a module at the `buffers` stage by scheduled rPrograms."""
        policy = get_policy(self.policy)
        device = find_device(self.device).device(self.num_veus)
        builder = graph_of_operators(module)
        graph = builder.graph()
        operators = _operators(module)
        if self.memory:
            fitting = limited(graph, self.memory)
            propose_offsets(builder.roots, fitting.offsets)
            graph = fitting.graph
        else:
            homes = keeps_homes(policy) and not self.per_operator
            graph = in_turns(graph, _chunks(operators), self.num_veus, homes=homes)
        plan = ask(policy, graph, device)
        if device.is_bulk_synchronous:
            plan = supersteps(graph, plan, device)
        if self.per_operator:
            plan = one_by_one(graph, plan, device)
        block = entry_block(module)
        calls = {
            number: OperatorCall(
                graph.operators[number].kernels[plan.kernels[number]].name,
                list(op.operation.operands),
                op.operation.location,
            )
            for number, op in enumerate(operators)
        }
        # Drop unused scratch before memory is planned: only rejected candidates needed it.
        given = {c.kernel for c in calls.values() if isinstance(c.operands[-1].owner, ir.Block)}
        dropped = drop_scratch(module, {call.kernel for call in calls.values()} - given)
        for number, call in calls.items():
            if call.kernel in dropped:
                calls[number] = replace(call, operands=call.operands[:-1])
        terminator = list(block.operations)[-1]
        write_plan(plan, calls, device.name, ir.InsertionPoint(terminator))
        record_predictions(module, plan)
        for op in operators:
            op.operation.erase()
        erase_unused_kernels(module, {call.kernel for call in calls.values()})


def _operators(module: ir.Module) -> list[ir.OpView]:
    return [op for op in entry_block(module).operations if op.operation.name == "rtask.operator"]


def _chunks(operators: Sequence[ir.OpView]) -> dict[int, Chunk]:
    """Return the chunk of each rOperator that belongs to a chunk, by the rOperator's index."""
    found = {number: chunk_of(op.operation) for number, op in enumerate(operators)}
    return {number: chunk for number, chunk in found.items() if chunk is not None}
