"""Models that the host runs by a host program, and the interpreter of host programs.

A step of a host program runs a compiled part of the model, evaluates an operator, selects a branch
or repeats a loop body.
"""
