"""Lowers an rProgram to a persistent kernel: its loop, task table and barriers."""
