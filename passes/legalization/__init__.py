"""What `rtask-legalize` is made of: rewrites of foreign IR, and the rules that the rest obeys."""
