"""Which operations become one rOperator, and where their results lie."""
