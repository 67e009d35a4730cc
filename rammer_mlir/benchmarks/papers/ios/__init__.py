"""Reproduce the evaluation of the IOS paper (Ding et al., MLSys 2021).

The folder has the studies, and the figures and tables that are made from their records.
"""
