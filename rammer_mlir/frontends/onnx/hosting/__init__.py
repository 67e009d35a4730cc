"""Models whose shapes or control flow depend on data: the host runs them, and calls their parts."""
