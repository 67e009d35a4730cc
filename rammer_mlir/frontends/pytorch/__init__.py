"""The PyTorch front end: modules and exported programs, converted to ONNX that shares weights.

``torch.onnx`` lowers the core operators of ATen and common module parts (attention, recurrent
layers, normalization) to ONNX, and the ONNX front end has fusions, layouts and the cache for them.
Models of both formats are therefore equally fast.
"""
