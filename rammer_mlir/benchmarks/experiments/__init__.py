"""Run scheduling experiments that no paper has: random networks, and large graphs."""
