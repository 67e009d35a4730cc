"""Reduction of memory for intermediates: live ranges of buffers, and chunked computation."""
