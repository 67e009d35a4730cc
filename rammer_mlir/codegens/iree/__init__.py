"""Compiles regions to object files with IREE; a region's workgroups are grouped into rTasks."""
