"""Contains the parts of `rtask-legalize`: rewrites of other compilers' IR, and the final checks."""
