"""External code, which this compiler did not generate: its forms, calls and linking."""
