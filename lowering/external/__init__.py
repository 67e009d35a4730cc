"""Code that does not come from this compiler: its form, how it is called, how it is linked."""
