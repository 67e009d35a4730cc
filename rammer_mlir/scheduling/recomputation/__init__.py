"""Reduces the peak memory by recomputing values instead of keeping them (rematerialization).

``operator_sequence`` describes the operators' reads and writes in order. ``live_range_gaps`` finds
the intervals (gaps) in which a value is live but unused. ``search`` finds the cheapest gaps in
which to free values (checkpointing of Chen et al., 2016, for any graph and any costs).
"""
