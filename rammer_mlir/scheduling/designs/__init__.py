"""Design search: which loops of a fused group are mapped to which parallel hardware (Dali, 2019).

``problem`` describes a group, ``coupling`` makes one variable of loops that have to agree,
``decisions`` stores, recomputes or ends at a value, ``machine`` lists the choices of a loop,
``cost`` and ``space`` bound the cost of unfinished designs, ``search`` finds the cheapest,
``outcome`` joins all.
"""
