"""Design search on IR: the loops, values and memory traffic of an rOperator's function."""
