"""Emulates the device: launches, faults and traces; needs NumPy and no compiler."""
