"""Run ONNX's backend test suite by our compiler and by ONNX Runtime, all inputs at run time."""
