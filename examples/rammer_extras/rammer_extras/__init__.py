"""Extensions of rammer-mlir: policy `fewest-waits`, device `four-cores`, rKernels `row-products`,
target `serial`.
"""
