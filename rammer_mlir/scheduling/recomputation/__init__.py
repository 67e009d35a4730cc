"""Rematerialization: values are recomputed rather than kept, to reduce the peak memory.

``operator_sequence`` describes the operators' reads and writes in order, ``live_range_gaps`` the
intervals in which a value is live but unused, ``search`` the cheapest gaps to free (checkpointing
of Chen et al., 2016, for any graph and any costs).
"""
