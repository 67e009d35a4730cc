"""Writes arrays of f32 to a file, or prints the arrays of a file.

Usage: arrays.py FILE.npz NAME=1,2,3 ...
       arrays.py FILE.npz
"""

import sys
from typing import Any

import numpy as np

file, *given = sys.argv[1:]
if given:
    named: dict[str, Any] = {}
    for text in given:
        name, _, values = text.partition("=")
        named[name] = np.array([float(value) for value in values.split(",")], np.float32)
    np.savez(file, **named)
else:
    with np.load(file) as arrays:
        for name, array in arrays.items():
            print(name, array.dtype, array.tolist())
