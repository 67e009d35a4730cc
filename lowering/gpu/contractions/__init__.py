"""Products and convolutions by the threads of a block."""
