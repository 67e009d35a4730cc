"""Runs models by host programs, which an interpreter on the host executes.

A step of a host program runs a compiled part of the model, evaluates an operator, selects a branch
or repeats a loop body.
"""
