"""The papers' experiments on the simulator."""
