"""The class of the `rtask` dialect, from which each operation's file derives its class."""

from rammer_mlir.bindings import ext


class RTask(ext.Dialect, name="rtask"):
    """The dialect `rtask`, RAMMER's view of a network: rOperators, rKernels, vEUs and rPrograms."""
