"""Names of stages, for help, messages, and whoever goes through stages without running them."""

PORTABLE_STAGES = ("linalg", "operators", "tasks", "buffers", "program")
"""Stages that every target has; ``linalg`` is what the front end gives."""

REGIONS = "regions"
"""The stage in front of `operators` where foreign code generators have made code of regions."""

_IR_STAGES = (PORTABLE_STAGES[0], REGIONS, *PORTABLE_STAGES[1:])

KNOWN_STAGES = (*_IR_STAGES, "target", "llvm", "object", "ptx", "cubin", "hsaco")
"""Stages of the targets that come with the project."""
