"""Contains parts of code generation for rKernels that all targets share.

The parts are affine index arithmetic, buffers, the combiners of reductions, and the search for
rKernel functions.
"""
