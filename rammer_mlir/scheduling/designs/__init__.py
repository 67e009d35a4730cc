"""Finds the cheapest mapping of a fused rOperator's loops to vEUs and lanes (Dali, 2019).

``problem`` describes the loops of a fused rOperator, called a group. ``coupling`` finds loops that
have to be mapped alike. ``decisions`` rewrites a group whose values are stored, recomputed by their
readers, or passed through memory. ``machine`` lists the mappings of a loop. ``cost`` and ``space``
bound the time of partial designs, ``search`` finds the cheapest design, and ``outcome`` runs all of
these and formats the result.
"""
