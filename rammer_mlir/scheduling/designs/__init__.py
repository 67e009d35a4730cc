"""Design search: a mapping of a fused group's loops to parallel hardware (Dali, 2019).

``problem`` describes a group, ``coupling`` merges loops that must agree into one variable,
``decisions`` stores or recomputes each value or ends a unit at it, ``machine`` lists the choices of
a loop, ``cost`` and ``space`` bound the cost of partial designs, ``search`` finds the cheapest
design, ``outcome`` combines all of these.
"""
