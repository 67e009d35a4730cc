"""Define networks in plain PyTorch, at any size: ResNet-18, BERT-like, GPT-like, LSTM.

The network "lstm" has the sizes of RAMMER's LSTM-TC: ten layers, 256 features, 100 steps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Arguments = tuple[Tensor, ...]


class _Residual(nn.Module):
    """Two convolutions and a shortcut (He et al., "Deep Residual Learning", figure 5)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 on images [N, 3, H, W]; ``width`` channels in the first stage."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.stem_norm = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        for stage in range(4):
            outputs = width << stage
            inputs = width if stage == 0 else outputs // 2
            blocks += [_Residual(inputs, outputs, 1 if stage == 0 else 2)]
            blocks += [_Residual(outputs, outputs, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(width << 3, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.pool(functional.relu(self.stem_norm(self.stem(image))))
        return self.classifier(functional.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


class _Layer(nn.Module):
    """A transformer layer with a normalization after attention and after the feed-forward part."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.joint(x).chunk(3, -1)
        shape = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal
        )
        joined = attended.transpose(1, 2).reshape(batch, tokens, width)
        x = self.norms[0](x + self.out(joined))
        return self.norms[1](x + self.feed_forward(x))


class _Transformer(nn.Module):
    def __init__(
        self, words: int, width: int, heads: int, layers: int, longest: int, *, causal: bool
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(_Layer(width, heads, causal=causal) for _ in range(layers))

    def hidden(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Encoder(_Transformer):
    """A BERT-like encoder, from token ids and a mask [N, T].

    It returns a dictionary with the hidden states and a pooled vector of each sequence.
    """

    def __init__(
        self, words: int = 30522, width: int = 768, heads: int = 12, layers: int = 12,
        longest: int = 512,
    ) -> None:  # fmt: skip
        super().__init__(words, width, heads, layers, longest, causal=False)
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        x = self.hidden(ids, mask[:, None, None, :])
        return {"hidden": x, "pooled": torch.tanh(self.pooler(x[:, 0]))}


class Decoder(_Transformer):
    """A GPT-like decoder: ids [N, T] to logits [N, T, words]."""

    def __init__(
        self, words: int = 50257, width: int = 768, heads: int = 12, layers: int = 12,
        longest: int = 1024,
    ) -> None:  # fmt: skip
        super().__init__(words, width, heads, layers, longest, causal=True)

    def forward(self, ids: Tensor) -> Tensor:
        return self.hidden(ids, None) @ self.words.weight.T


class Lstm(nn.Module):
    """LSTM layers on [N, T, inputs] with a linear output layer.

    It returns the outputs [N, T, 10], and the last hidden and cell state as a nested tuple.
    """

    def __init__(self, inputs: int = 256, hidden: int = 512, layers: int = 2) -> None:
        super().__init__()
        self.cells = nn.LSTM(inputs, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y, state = self.cells(x)
        return self.out(y), state


def _full() -> dict[str, Callable[[], tuple[nn.Module, Arguments]]]:
    return {
        "resnet18": lambda: (ResNet18(), (torch.randn(1, 3, 224, 224),)),
        "encoder": lambda: (
            Encoder(), (torch.randint(0, 30522, (1, 128)), torch.ones(1, 128, dtype=torch.bool)),
        ),
        "decoder": lambda: (Decoder(), (torch.randint(0, 50257, (1, 64)),)),
        "lstm": lambda: (Lstm(256, 256, 10), (torch.randn(1, 100, 256),)),
        "short_lstm": lambda: (Lstm(), (torch.randn(1, 32, 256),)),
    }  # fmt: skip


def _small() -> dict[str, Callable[[], tuple[nn.Module, Arguments]]]:
    return {
        "resnet18": lambda: (ResNet18(4, 10), (torch.randn(1, 3, 32, 32),)),
        "encoder": lambda: (
            Encoder(50, 32, 4, 1, 16), (torch.randint(0, 50, (1, 9)), torch.rand(1, 9) > 0.2),
        ),
        "decoder": lambda: (Decoder(50, 32, 4, 1, 16), (torch.randint(0, 50, (1, 9)),)),
        "lstm": lambda: (Lstm(6, 16, 2), (torch.randn(1, 9, 6),)),
        "short_lstm": lambda: (Lstm(6, 16, 2), (torch.randn(1, 5, 6),)),
    }  # fmt: skip


NAMES = tuple(_full())
"""Names of the networks."""


def network(name: str, *, small: bool = False) -> tuple[nn.Module, Arguments]:
    """Return network ``name`` with random weights in evaluation mode, and random arguments.

    ``small`` selects a network and arguments of reduced sizes, for tests.
    """
    torch.manual_seed(7)
    module, arguments = (_small() if small else _full())[name]()
    return module.eval(), arguments
