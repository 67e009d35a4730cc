"""Regions that the host compiles itself, so that passes can rewrite their contents."""
