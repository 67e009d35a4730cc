"""Lowers an rProgram to a persistent kernel: its dispatch loop, task table and barriers."""
