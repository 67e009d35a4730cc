"""Reads the loops, values and memory traffic of an rOperator, as the input of the design search.

The design search finds the cheapest mapping of an rOperator's loops to vEUs and vector lanes.
"""
