"""Compile an ONNX model, run it, save the compiled artifact, and run that.

Usage: python examples/compile_and_run.py [MODEL.onnx]

Without an argument, SqueezeNet from the onnx package with random weights is compiled.
"""

import sys
from pathlib import Path

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds

model = onnx.load(sys.argv[1]) if len(sys.argv) > 1 else build("light_squeezenet")

# A path, the bytes of a file, or a ModelProto. The default of num_veus is the number of cores.
executable = rammer_mlir.compile(model, target="cpu", policy="wavefront")

# Inputs and outputs are dicts of NumPy arrays, by the model's own names.
feeds = random_feeds(model)
for name, value in executable.run(feeds).items():
    print(f"{name}: {value.dtype}{list(value.shape)}, mean {value.mean():.6g}")

# The artifact holds native code, weights and signature: loading it needs NumPy, but no compiler.
path = Path("build/example.rammer")
path.parent.mkdir(exist_ok=True)
executable.save(path)
again = rammer_mlir.load(path)
print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, gives {list(again.run(feeds))}")
