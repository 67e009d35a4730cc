"""Writes arrays of f32 to a file, or prints the arrays of a file.

Usage: arrays.py FILE.npz NAME=1,2,3 ...
       arrays.py FILE.npz
"""

import sys

import numpy as np

file, *given = sys.argv[1:]
if given:
    pairs = (text.split("=") for text in given)
    np.savez(file, **{name: np.float32(values.split(",")) for name, values in pairs})
else:
    with np.load(file) as arrays:
        for name, array in arrays.items():
            print(name, array.dtype, array.tolist())
