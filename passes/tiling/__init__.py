"""Tiling of rOperators into rTasks, and the rKernels that compute the rTasks."""
