"""Tiles rOperators into rTasks, and builds the rKernels that compute the rTasks."""
