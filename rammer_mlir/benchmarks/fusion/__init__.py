"""Measure fusion of training steps: Dali's tables 1, 2 and figure 2, and RAMMER's figure 21."""
