"""Converts PyTorch modules and exported programs to ONNX models that share the weights.

``torch.onnx`` lowers ATen's core operators and common layers (attention, recurrent layers,
normalization) to ONNX operators. The ONNX front end fuses these operators and chooses their
layouts, and the compile cache stores the compiled models. A PyTorch model is therefore as fast as
the same model given in ONNX.
"""
