"""Independent proof that a plan is a correct schedule.

A plan is correct when every rTask runs exactly once, no wait can block forever, every element is
written once and before it is read, buffers that share memory are never in use at the same time, and
no rTask runs at the same time as an rTask that uses the whole device. Buffers that are updated in
place may be written more often, in the order of the graph.

The verifier uses only the graph and the finished plan, and shares no code with the scheduler:
happens-before comes from executing the barriers here (``history``), the touched elements of an
rTask from listing them (``elements``), not from the scheduler's arithmetic on strided boxes.
"""

from rammer_mlir.scheduling.verifier.verify import verify

__all__ = ["verify"]
