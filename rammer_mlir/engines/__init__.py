"""External code at run time: the packages that it requires, and the state of its functions."""
