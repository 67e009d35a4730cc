"""Foreign code at run time: its requirements, and its state from opening to closing."""
