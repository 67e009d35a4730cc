"""Reproduce the evaluation of the RAMMER paper (Ma et al., OSDI 2020).

The folder has the studies, and the figures and tables that are made from their records.
"""
