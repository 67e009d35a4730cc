"""Defines ``RTask``, the `rtask` dialect; classes of operations derive from ``RTask.Operation``."""

from rammer_mlir.bindings import ext


class RTask(ext.Dialect, name="rtask"):
    """The dialect `rtask`, RAMMER's view of a network: rOperators, rKernels, vEUs and rPrograms."""
