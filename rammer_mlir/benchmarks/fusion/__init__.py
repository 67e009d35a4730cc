"""Measure fusion of training steps, to reproduce results of the papers of Dali and RAMMER."""
