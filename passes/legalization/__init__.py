"""Parts of `rtask-legalize`: rewrites of foreign IR, and rules that legal IR obeys."""
