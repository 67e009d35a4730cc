"""Run scheduling experiments on random networks and on large graphs."""
