"""Models whose steps the host runs, each a compiled part or an operator, and the interpreter."""
