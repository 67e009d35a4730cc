"""Run ONNX's backend tests with our compiler and ONNX Runtime; inputs are given at run time."""
