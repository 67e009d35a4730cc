"""Matrix products and convolutions, computed jointly by the threads of a block."""
