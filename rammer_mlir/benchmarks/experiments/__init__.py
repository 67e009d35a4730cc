"""Run experiments on the simulator that are in no paper: random modules, and large graphs."""
