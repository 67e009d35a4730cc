"""Measuring rKernels one by one: how long an rTask takes on this processor."""
