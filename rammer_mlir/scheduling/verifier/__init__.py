"""Proves that a plan is a correct schedule, independently of the scheduler.

A plan is correct when every rTask runs exactly once, no wait can block forever, every element is
written once and before it is read, buffers that share memory are never in use at the same time, and
no rTask runs at the same time as an rTask that uses the whole device. Buffers that are updated in
place may be written more often, in the order of the graph.

The verifier uses only the graph and the finished plan, and shares no code with the scheduler. It
finds the happens-before order by executing the barriers (``history``), and the elements that an
rTask touches by listing them (``elements``) instead of by arithmetic on strided boxes.
"""

from rammer_mlir.scheduling.verifier.verify import verify

__all__ = ["verify"]
