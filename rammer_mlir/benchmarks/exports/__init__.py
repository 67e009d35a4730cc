"""Compile models that frameworks' own exporters wrote, and compare them with ONNX Runtime.

``zoo`` builds and exports the models in an environment with the frameworks; ``check`` compiles and
compares them in the project's environment.
"""
