"""Groups operations into rOperators (fusion), and places their results in buffers."""
