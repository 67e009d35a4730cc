"""Lists the names of stages; can be imported without the compiler."""

PORTABLE_STAGES = ("linalg", "operators", "tasks", "buffers", "program")
"""Stages that every target has; ``linalg`` is the front end's result."""

REGIONS = "regions"
"""The stage before `operators`, after code generation for regions by foreign code generators."""

_IR_STAGES = (PORTABLE_STAGES[0], REGIONS, *PORTABLE_STAGES[1:])

KNOWN_STAGES = (*_IR_STAGES, "target", "llvm", "object", "ptx", "cubin", "hsaco")
"""Names of all stages of the built-in targets."""
