"""Defines ``rtask.program``, an rProgram."""

from rammer_mlir.bindings import ext, ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, attribute, holds_only, integer, verified
from rammer_mlir.dialects.rtask.dialect import RTask
from rammer_mlir.dialects.rtask.schedule_rules import check_barriers, check_runs


class ProgramOp(RTask.Operation, name="program", traits=[ir.NoTerminatorTrait]):
    """An rProgram: the work of one launch on the vEUs of a device (RAMMER section 3.2).

    The region holds ``num_veus`` operations ``rtask.veu`` with the ids 0, 1, ... in order. Several
    programs in a function run sequentially, with a global synchronization in between.
    """

    device: ir.StringAttr
    num_veus: ir.IntegerAttr
    body: ext.Region

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """Whether attributes are valid and the region has only vEUs; emit a diagnostic if not."""
        return verified(lambda: _check(op.operation))

    @staticmethod
    def verify_region_invariants(op: ir.OpView) -> bool:
        """Whether the vEUs have the ids 0, 1, ... in order, and each run and barrier is valid.

        If not, emit a diagnostic. The time is linear in the size of the program.
        """
        return verified(lambda: _check_region(op.operation))


def _check(op: ir.Operation) -> None:
    attribute(op, "device", ir.StringAttr)
    integer(op, "num_veus", at_least=1, rule="counts are positive")
    holds_only(op, ("rtask.veu",))


def _check_region(op: ir.Operation) -> None:
    veus = holds_only(op, ("rtask.veu",))
    num_veus = ir.IntegerAttr(op.attributes["num_veus"]).value
    if len(veus) != num_veus:
        raise Broken(op, f"{num_veus} vEUs", len(veus), "num_veus counts the regions")
    for number, veu in enumerate(veus):
        found = ir.IntegerAttr(veu.attributes["id"]).value
        if found != number:
            raise Broken(veu, f"id {number}", found, "vEUs have the ids 0, 1, ... in order")
    items = [[item.operation for item in veu.regions[0].blocks[0].operations] for veu in veus]
    check_barriers(items)
    check_runs(op, items)
