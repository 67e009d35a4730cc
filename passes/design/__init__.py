"""Connects design search to IR: reads loops, values and memory traffic of an rOperator."""
