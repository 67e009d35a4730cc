"""Access to linalg operations, functions and weights, which all passes share."""
