"""Random operators and short chains of sizes that nobody chose: ``--parts sweep``.

``sizes`` draws numbers, ``families`` has the kinds of cases, ``cases`` draws a case by its seed,
``measure`` times it beside other contenders, and ``tables`` summarises.
"""
