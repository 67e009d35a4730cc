"""Forms regions that this compiler compiles itself, so that passes can rewrite their operations."""
