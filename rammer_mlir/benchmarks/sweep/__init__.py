"""Measure random operators and short chains of operators: ``--parts sweep``.

The files:

- ``sizes`` draws random numbers.
- ``families`` defines the kinds of cases.
- ``cases`` draws a case from a seed.
- ``measure`` times a case in all contenders.
- ``tables`` summarizes the times.
"""
