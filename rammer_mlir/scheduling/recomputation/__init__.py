"""Rematerialization: values are recomputed rather than kept, to reduce the peak memory.

``operator_sequence`` describes the operators' reads and writes in order, ``live_range_gaps`` the
intervals (gaps) in which a value is live but unused, ``search`` finds the cheapest gaps in which to
free values (checkpointing of Chen et al., 2016, for any graph and any costs).
"""
