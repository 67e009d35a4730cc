"""Finds the cheapest mapping of a fused rOperator's loops to vEUs and lanes (Dali, 2019).

The modules, in order of use:

- ``problem`` describes a group: the loops of a fused rOperator and the values between them.
- ``decisions`` rewrites a group by a decision on each value. A value is stored, recomputed by its
  readers, or passed through memory.
- ``coupling`` finds loops that have to be mapped in the same manner.
- ``machine`` lists the mappings of a loop.
- ``cost`` bounds the time of one loop nest, ``space`` the time of a partial design. A design is a
  mapping of each class of coupled loops.
- ``search`` finds the cheapest design.
- ``outcome`` calls the other modules and formats the result.
"""
