"""Models that the host runs in parts: host programs and their interpreter."""
