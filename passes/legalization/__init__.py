"""Contains the parts of `rtask-legalize`: rewrites of foreign IR, and the rules of legal IR."""
