"""The emulated device: launches, faults and traces; requires NumPy alone."""
