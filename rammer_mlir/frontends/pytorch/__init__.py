"""PyTorch's front end: modules and exported programs become ONNX in memory, which shares weights.

``torch.onnx`` has a lowering to ONNX for the core operators of ATen and for what modules are made
of (attention, recurrent layers, normalisation), and the ONNX front end has fusions, layouts and
the cache for them. So a model is equally fast whichever way it comes in.
"""
