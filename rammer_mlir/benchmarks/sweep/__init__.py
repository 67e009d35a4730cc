"""Measure random operators and short chains of operators, of random sizes: ``--parts sweep``.

``sizes`` draws numbers, ``families`` has the kinds of cases, ``cases`` draws a case by its seed,
``measure`` times it in all contenders, and ``tables`` summarises.
"""
