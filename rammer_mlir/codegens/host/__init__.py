"""Regions that this compiler compiles itself; they let passes rewrite their operations."""
