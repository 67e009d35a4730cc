"""How rOperators are cut into rTasks, and the rKernels that compute them."""
