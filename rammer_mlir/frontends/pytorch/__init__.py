"""Converts PyTorch modules and exported programs to ONNX models that share the weights.

``torch.onnx`` lowers the core operators of ATen and common module parts (attention, recurrent
layers, normalization) to ONNX, and the ONNX front end has fusions, layouts and the cache for them.
Models of both formats are therefore equally fast.
"""
