"""Code from elsewhere where it runs: what it needs, and its state, from opening to closing."""
