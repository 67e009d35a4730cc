"""Define small models of PyTorch functions that no other model of this folder calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import SIZED_IMAGES, Model

Tensor = torch.Tensor
FRAMES = (Input("x", ("batch", "length", 16)),)
PICTURES = (Input("x", ("batch", 4, "height", "width")),)
CASES = tuple({"batch": 1 + i % 3, "length": n} for i, n in enumerate((1, 7, 33, 200)))


class Function(nn.Module):
    """A PyTorch module that applies a function to a tensor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Wrap ``function``, a callable with a single tensor as argument, as a module."""
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        """Return ``function(x)``, where ``function`` is the wrapped function."""
        return self.function(x)


class Layers(nn.Module):
    """A PyTorch module that applies modules and functions one after the other."""

    def __init__(self, *layers: Any) -> None:
        """Chain ``layers`` in the given order; each is a module, or a function of a tensor."""
        super().__init__()
        self.layers = nn.ModuleList(
            each if isinstance(each, nn.Module) else Function(each) for each in layers
        )

    def forward(self, x: Tensor) -> Any:
        """Return the result of applying all layers to ``x`` in order."""
        for layer in self.layers:
            x = layer(x)
        return x


def frames(name: str, *layers: Any) -> Model:
    """Return the export entry of a model that applies ``layers`` to sequences [batch, length, 16].

    The model's name is ``f_`` followed by ``name``.
    """
    return Model(f"f_{name}", lambda: Layers(*layers), FRAMES, CASES)


def pictures(name: str, *layers: Any) -> Model:
    """Return the export entry of a model that applies ``layers`` to images [batch, 4, H, W].

    The model's name is ``f_`` followed by ``name``.
    """
    return Model(f"f_{name}", lambda: Layers(*layers), PICTURES, SIZED_IMAGES)


def _swap(x: Tensor) -> Tensor:
    return x.transpose(1, 2)


def _attention(x: Tensor) -> Tensor:
    heads = x.view(x.shape[0], x.shape[1], 4, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def _masked_attention(x: Tensor) -> Tensor:
    heads = x.view(x.shape[0], x.shape[1], 4, 4).transpose(1, 2)
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(2)
    return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)


def _index_put(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, ::2, 3:7] = x[:, ::2, :4] * 2
    y[:, -1] = 1.0
    return y


def _masked(x: Tensor) -> Tensor:
    y = x.masked_fill(x > 1, float("-inf")).softmax(-1)
    return torch.where(x < 0, y, torch.nan_to_num(x.log()))


def _alibi(x: Tensor) -> Tensor:
    at = torch.arange(x.shape[1])
    slopes = torch.tensor([0.5, 0.25])
    bias = -(at[:, None] - at[None]).abs() * slopes[:, None, None]
    return bias + (x @ x.transpose(1, 2))[:, None]


def _rotary(x: Tensor) -> Tensor:
    at = torch.arange(x.shape[1], dtype=torch.float32)
    angles = torch.einsum("i,j->ij", at, 1e4 ** (-torch.arange(0, 16, 2).float() / 16))
    both = torch.polar(torch.ones_like(angles), angles)
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * both
    return torch.view_as_real(turned).flatten(-2)


def _buckets(x: Tensor) -> Tensor:
    return torch.bucketize(x, torch.linspace(-1, 1, 9))


def _scatter(x: Tensor) -> tuple[Tensor, Tensor]:
    index = x.argsort(1)
    return torch.zeros_like(x).scatter(1, index, x), torch.zeros_like(x).scatter_add(
        1, index % 2, x
    )


def _sorted(x: Tensor) -> Any:
    values, index = x.sort(dim=-1, descending=True)
    return values, index, x.median(-1).values, x.kthvalue(3, -1).values, x.topk(5, -1).values


def _reductions(x: Tensor) -> Any:
    var, mean = torch.var_mean(x, (1, 2), unbiased=False)
    return var, mean, x.std(-1), x.logsumexp(-1), x.norm(dim=-1), x.amax((1, 2)), x.prod(-1)


def _cumulative(x: Tensor) -> Any:
    return x.cumsum(1), x.sigmoid().cumprod(1), x.flip(1).cumsum(2)


def _distances(x: Tensor) -> Any:
    return torch.cdist(x, x * 0.5), F.cosine_similarity(x[:, :, None], x[:, None], dim=-1)


def _windows(x: Tensor) -> Tensor:
    padded = F.pad(x.transpose(1, 2), (4, 4))
    return padded.unfold(-1, 9, 1).mean(-1)


def _one_hot(x: Tensor) -> Any:
    best = x.argmax(-1)
    return F.one_hot(best, 16).float() @ torch.eye(16), F.embedding(best, torch.ones(16, 3))


def _split(x: Tensor) -> Any:
    a, b, c = x.split([3, 5, 8], -1)
    return torch.cat([c, a, b], -1), torch.stack(x.unbind(-1)[:3]), x.roll((1, -2), (1, 2))


def _repeat(x: Tensor) -> Any:
    return x.repeat_interleave(3, 1), x.repeat(2, 1, 1), x.expand(2, *x.shape).tril(1)


def _statistics(x: Tensor) -> Tensor:
    mask = (x > 0).float()
    mean = (x * mask).sum(1) / mask.sum(1).clamp(min=1e-5)
    return torch.cat([mean, (x - mean[:, None]).square().mean(1).sqrt()], -1)


def _affine(x: Tensor) -> Tensor:
    theta = torch.tensor([[0.8, 0.2, 0.1], [-0.2, 0.9, 0.0]]).expand(x.shape[0], 2, 3)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _resized(**options: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: F.interpolate(x, **options)


def _unfolded(x: Tensor) -> Tensor:
    columns = F.unfold(x, 3, padding=1, stride=2)
    return columns.view(x.shape[0], 4, 9, -1).amax(2)


def _stft(x: Tensor) -> Tensor:
    wave = x.flatten(1)
    wave = F.pad(wave, (0, 64))
    return torch.view_as_real(
        torch.stft(wave, 32, 8, window=torch.hann_window(32), center=False, return_complex=True)
    )


def _spectrum(x: Tensor) -> Tensor:
    return torch.fft.rfft(x, dim=-1).abs()


def _integers(x: Tensor) -> Any:
    whole = (x * 10).long()
    return whole // 3, whole % 3, whole & 7, whole << 1, torch.bitwise_xor(whole, whole + 1)


def _activations(x: Tensor) -> Tensor:
    names = "mish hardswish hardsigmoid softplus softsign elu selu celu relu6 logsigmoid tanhshrink"
    for name in names.split():
        x = x + getattr(F, name)(x)
    return F.glu(F.rrelu(F.threshold(x, 0.1, 0.2)), -1) + F.gelu(x[..., :8], approximate="tanh")


def _experts(x: Tensor) -> Tensor:
    weights, index = x[..., :4].softmax(-1).topk(2, -1)
    chosen = F.one_hot(index, 4).float() * weights[..., None]
    experts = torch.stack([x * (i + 1) for i in range(4)], -2)
    return (chosen.sum(-2)[..., None] * experts).sum(-2)


MODELS = (
    frames("attention", _attention),
    frames("masked_attention", _masked_attention),
    frames("index_put", _index_put),
    frames("masked", _masked),
    frames("alibi", _alibi),
    frames("rotary_complex", _rotary),
    frames("buckets", _buckets),
    frames("scatter", _scatter),
    frames("sorted", _sorted),
    frames("reductions", _reductions),
    frames("cumulative", _cumulative),
    frames("distances", _distances),
    frames("windows", _windows),
    frames("one_hot", _one_hot),
    frames("split", _split),
    frames("repeat", _repeat),
    frames("statistics", _statistics),
    frames("stft", _stft),
    frames("spectrum", _spectrum),
    frames("integers", _integers),
    frames("activations", _activations),
    frames("experts", _experts),
    frames("rms_norm", nn.RMSNorm(16), nn.Linear(16, 8), nn.PReLU()),
    frames("bilinear", lambda x: F.bilinear(x, x, torch.ones(3, 16, 16))),
    frames("transposed_1d", _swap, nn.ConvTranspose1d(16, 8, 5, 3, 1, 2), nn.InstanceNorm1d(8)),
    frames("adaptive_1d", _swap, nn.AdaptiveAvgPool1d(1), nn.Flatten()),
    frames("weight_norm", _swap, nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 8, 3, 1, 1))),
    frames("group_norm", _swap, nn.GroupNorm(4, 16), nn.Conv1d(16, 4, 1)),
    pictures("affine", _affine),
    pictures("bicubic", _resized(scale_factor=1.5, mode="bicubic", align_corners=True)),
    pictures("antialias", _resized(size=(20, 24), mode="bilinear", antialias=True)),
    pictures("nearest", _resized(scale_factor=(2, 3), mode="nearest-exact")),
    pictures("unfolded", _unfolded),
    pictures("shuffle", nn.Conv2d(4, 16, 3, 2, 1), nn.PixelShuffle(2), nn.PixelUnshuffle(2)),
    pictures(
        "pools",
        nn.LPPool2d(2, 3, 2),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.MaxPool2d(2, ceil_mode=True),
    ),
    pictures("adaptive", nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.BatchNorm1d(4)),
    pictures(
        "transposed",
        nn.ConvTranspose2d(4, 8, 3, 2, 1, 1, groups=2, dilation=2),
        nn.LocalResponseNorm(3),
    ),
    pictures(
        "reflect",
        nn.ReflectionPad2d(3),
        nn.Conv2d(4, 4, 7, groups=4),
        nn.ReplicationPad2d(2),
        nn.InstanceNorm2d(4, affine=True),
    ),
    pictures("circular", nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")),
    pictures("channels_last", lambda x: x.permute(0, 2, 3, 1), nn.LayerNorm(4), nn.Linear(4, 8)),
    pictures(
        "three_d",
        lambda x: x.unsqueeze(1),
        nn.Conv3d(1, 4, 3, padding=1),
        nn.MaxPool3d(2),
        nn.Upsample(scale_factor=2, mode="trilinear"),
    ),
)
