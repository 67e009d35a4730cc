"""Less memory for intermediates: which rOperators touch which buffers, and how to shorten that."""
