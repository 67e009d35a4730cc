"""Defines the class of the `rtask` dialect, the base of every operation's class."""

from rammer_mlir.bindings import ext


class RTask(ext.Dialect, name="rtask"):
    """The dialect `rtask`, RAMMER's view of a network: rOperators, rKernels, vEUs and rPrograms."""
