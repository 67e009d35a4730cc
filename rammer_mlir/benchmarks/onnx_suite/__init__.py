"""Run the tests of ``onnx.backend.test`` with our compiler and with ONNX Runtime."""
