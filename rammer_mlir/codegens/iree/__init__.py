"""Compiles regions with IREE: a region becomes an object, its workgroups become rTasks."""
