"""Proves that a plan is a correct schedule, independently of the scheduler.

A plan is correct if all of these rules hold:

- Every rTask runs exactly once.
- No wait can block forever.
- No element is written twice, or read before it is written, and outputs are written completely.
  Buffers that are updated in place may be written more often, in the order of the graph.
- Buffers that share memory are never in use at the same time.
- No rTask runs at the same time as an rTask that uses the whole device.

The verifier uses only the graph and the finished plan, and shares no code with the scheduler. It
finds the happens-before order by executing the barriers (``history``). It finds the elements that
an rTask touches by listing all of them (``elements``) instead of by arithmetic on strided boxes.
"""

from rammer_mlir.scheduling.verifier.verify import verify

__all__ = ["verify"]
