"""Names of stages, for help, messages, and whoever goes through stages without running them."""

PORTABLE_STAGES = ("linalg", "operators", "tasks", "buffers", "program")
"""Stages that every target has; ``linalg`` is what the front end gives."""

REGIONS = "regions"
"""The stage in front of `operators` where foreign code generators have made code of regions."""

KNOWN_STAGES = (*PORTABLE_STAGES, REGIONS, "target", "llvm", "object", "ptx", "cubin", "hsaco")
"""Stages of the targets that come with the project."""
