"""Models that the host runs in parts: host programs and what executes them."""
