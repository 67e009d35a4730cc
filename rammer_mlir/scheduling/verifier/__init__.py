"""Proof that a plan is a correct schedule, whoever made it.

A plan is correct when every rTask runs exactly once, no wait can block forever, every element is
written once and before it is read, buffers that share memory are never in use at the same time, and
nothing runs beside an rTask that uses the whole device.

Only the graph and the finished plan are looked at, and nothing is shared with the code that makes
plans: happens-before comes from executing the barriers here (``history``), what an rTask touches
from listing its elements (``elements``), not from the digit arithmetic that the scheduler uses.
"""

from rammer_mlir.scheduling.verifier.verify import verify

__all__ = ["verify"]
