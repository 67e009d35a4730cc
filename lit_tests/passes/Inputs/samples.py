"""Writes calibration data: 20 samples of the input ``x``, 4 x 8 numbers between -1 and 3."""

from __future__ import annotations

import sys

import numpy as np

numbers = np.random.default_rng(0).uniform(-1, 3, (20, 4, 8))
np.savez(sys.argv[1], x=numbers.astype(np.float32))
