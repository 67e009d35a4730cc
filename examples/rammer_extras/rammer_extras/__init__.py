"""Extensions of rammer-mlir: the policy `fewest-waits` and the target `serial`."""
