"""ONNX's backend test suite, with all inputs given at run time, beside ONNX Runtime."""
