"""Compile a module of PyTorch, call it on tensors, and let torch.compile use the compiler.

Usage: python examples/torch_model.py (needs pip install "rammer-mlir[torch]")
"""

import torch
from torch import Tensor, nn

import rammer_mlir
import rammer_mlir.pytorch


class Classifier(nn.Module):
    """Convolutions on images [N, 3, H, W], and a dict of results."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1)
        )
        self.out = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return logits and the features that they are computed from."""
        features = self.features(image).mean((2, 3))
        return {"logits": self.out(features), "features": features}


model = Classifier().eval()
images = torch.randn(4, 3, 32, 32)

with torch.no_grad():
    expected = model(images)["logits"]

    # A callable with the module's own arguments and results; batches of any size.
    batch = torch.export.Dim("batch", min=1)
    compiled = rammer_mlir.pytorch.compile(model, (images,), dynamic_shapes={"image": {0: batch}})
    print("batch of 4:", (compiled(images)["logits"] - expected).abs().max().item())
    print("batch of 1:", (compiled(images[:1])["logits"] - expected[:1]).abs().max().item())

    # An executable with arrays by name, from an exported program; it can be saved.
    executable = rammer_mlir.compile(torch.export.export(model, (images,)), policy="wavefront")
    print(executable, list(executable.run({"image": images.numpy()})))

    # torch.compile finds the back end of the installed package by its name.
    by_torch = torch.compile(model, backend="rammer", options={"num_veus": 2})
    print("torch.compile:", (by_torch(images)["logits"] - expected).abs().max().item())
