"""Define networks of plain PyTorch modules, in the style of handwritten research code."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.utils import rnn

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import LENGTHS, SEQUENCES, SIZED_IMAGES, Model, image

Tensor = torch.Tensor
FRAMES = (Input("x", ("batch", "length", 16)),)
SHORT = tuple(case for case in SEQUENCES if case["length"] <= LENGTHS[3])


class Recurrent(nn.Module):
    """A recurrent layer with a linear classifier on its hidden states."""

    def __init__(self, kind: type[nn.RNNBase], **options: int | bool) -> None:
        """Make the classifier and a layer of class ``kind`` with arguments ``options``."""
        super().__init__()
        self.layer = kind(16, 24, batch_first=True, **options)
        self.head = nn.Linear(48 if options.get("bidirectional") else 24, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of five classes for each frame of ``x``, and for the last frame alone.

        ``x`` is [N, T, 16]; the results are [N, T, 5] and [N, 5].
        """
        found, _ = self.layer(x)
        return self.head(found), self.head(found[:, -1])


class Packed(nn.Module):
    """An embedding and an LSTM layer on packed sequences of different lengths."""

    def __init__(self) -> None:
        """Make the embedding and the LSTM layer."""
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.layer = nn.LSTM(16, 24, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of the token sequences ``ids`` [N, T] with the given ``lengths`` [N].

        Returns:
            All states, padded to equal length, [N, T, 48]; and the last state of each direction,
            [2, N, 24].
        """
        packed = rnn.pack_padded_sequence(self.embedding(ids), lengths, batch_first=True)
        states, (last, _) = self.layer(packed)
        return rnn.pad_packed_sequence(states, batch_first=True)[0], last


class Encoder(nn.Module):
    """PyTorch's own transformer encoder, on padded sequences."""

    def __init__(self) -> None:
        """Make an encoder of two layers."""
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return hidden states [N, T, 16] of the frames ``x`` [N, T, 16].

        ``mask`` [N, T] is 1 for frames and 0 for padding.
        """
        return self.layers(x, src_key_padding_mask=mask == 0)


class Translator(nn.Module):
    """PyTorch's own transformer encoder and decoder, with a causal mask in the decoder."""

    def __init__(self) -> None:
        """Make an encoder and a decoder of two layers each."""
        super().__init__()
        self.layers = nn.Transformer(16, 4, 2, 2, 32, batch_first=True)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the decoder's hidden states [N, S, 16] for ``target`` [N, S, 16].

        ``x`` [N, T, 16] is the input of the encoder.
        """
        size = target.shape[1]
        mask = torch.triu(torch.full((size, size), float("-inf")), diagonal=1)
        return self.layers(x, target, tgt_mask=mask)


class Attention(nn.Module):
    """A GRU decoder with additive attention that decodes a fixed number of frames."""

    def __init__(self) -> None:
        """Make the encoder, the attention layers and the decoder's cell."""
        super().__init__()
        self.encoder = nn.GRU(16, 24, batch_first=True)
        self.query, self.key, self.score = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 1)
        self.prenet = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.cell = nn.GRUCell(40, 24)
        self.out = nn.Linear(48, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Return eight frames [N, 8, 8] decoded from the input frames ``x`` [N, T, 16].

        Each frame is predicted from the previous frame, as in Tacotron.
        """
        memory, state = self.encoder(x)
        state, frame, frames = state[0], x.new_zeros(x.shape[0], 8), []
        for _ in range(8):
            score = self.score(torch.tanh(self.query(state)[:, None] + self.key(memory)))
            context = (score.softmax(1) * memory).sum(1)
            state = self.cell(torch.cat([self.prenet(frame), context], -1), state)
            frame = self.out(torch.cat([state, context], -1))
            frames.append(frame)
        return torch.stack(frames, 1)


class UNet(nn.Module):
    """A U-Net of two levels; the decoder resizes each map to the size of its skip connection."""

    def __init__(self) -> None:
        """Make the convolutions."""
        super().__init__()
        self.down = nn.ModuleList([_block(3, 8), _block(8, 16), _block(16, 32)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.merge = nn.ModuleList([_block(32, 16), _block(16, 8)])
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return four scores for each pixel, [N, 4, H, W], of images ``x`` [N, 3, H, W]."""
        first = self.down[0](x)
        second = self.down[1](nn.functional.max_pool2d(first, 2))
        x = self.down[2](nn.functional.max_pool2d(second, 2))
        for up, merge, skip in zip(self.up, self.merge, (second, first), strict=True):
            x = nn.functional.interpolate(up(x), skip.shape[-2:], mode="bilinear")
            x = merge(torch.cat([x, skip], 1))
        return self.head(x)


class Yolo(nn.Module):
    """A detector with a backbone, a neck, and two heads, for images of any size."""

    def __init__(self) -> None:
        """Make the convolutions and anchors."""
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 6, 2, 2), nn.SiLU(), _block(8, 16, 2))
        self.deep = _block(16, 32, 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.lateral = nn.Conv2d(64, 16, 1)
        self.heads = nn.ModuleList([nn.Conv2d(32, 21, 1), nn.Conv2d(64, 21, 1)])
        self.register_buffer("anchors", torch.rand(2, 3, 2) * 30)

    def forward(self, x: Tensor) -> Tensor:
        """Return boxes and scores [N, anchors, 7] of images ``x``, for the anchors of both heads.

        The seven numbers are a box's center (2) and size (2), its objectness, and the scores of two
        classes.
        """
        shallow = self.stem(x)
        deep = self.deep(shallow)
        deep = torch.cat([deep, self.pool(deep)], 1)
        up = nn.functional.interpolate(self.lateral(deep), scale_factor=2.0, mode="nearest")
        levels = zip(self.heads, (torch.cat([shallow, up], 1), deep), strict=True)
        return torch.cat([self.decode(head(x), i) for i, (head, x) in enumerate(levels)], 1)

    def decode(self, x: Tensor, level: int) -> Tensor:
        """Return boxes and scores [N, 3 * H * W, 7] from a head's output ``x`` [N, 21, H, W].

        A head has three anchors at each position. ``level`` is the index of the head.
        """
        batch, _, height, width = x.shape
        x = x.view(batch, 3, 7, height, width).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack((columns, rows), 2).expand(1, 3, height, width, 2).float()
        center = (x[..., :2] * 2 - 0.5 + grid) * 4.0 * (level + 1)
        size = (x[..., 2:4] * 2) ** 2 * self.anchors[level].view(1, 3, 1, 1, 2)
        return torch.cat((center, size, x[..., 4:]), -1).view(batch, -1, 7)


class Keypoints(nn.Module):
    """A detector of keypoints by heat maps; it also samples features at the keypoints."""

    def __init__(self) -> None:
        """Make the convolutions."""
        super().__init__()
        self.body = _block(3, 16, 2)
        self.heat = nn.Conv2d(16, 6, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return positions, features and heat map maxima of six keypoints in each image of ``x``.

        Returns:
            The positions [N, 6, 2] in [-1, 1], each the mean over a heat map; the features [N, 16,
            1, 6] sampled at the positions; and for each heat map the value, column and row of its
            maximum, [N, 6, 3].
        """
        features = self.body(x)
        heat = self.heat(features)
        batch, points, height, width = heat.shape
        weights = heat.flatten(2).softmax(-1).view(batch, points, height, width)
        ys = torch.linspace(-1, 1, height)
        xs = torch.linspace(-1, 1, width)
        position = torch.stack([(weights.sum(2) * xs).sum(-1), (weights.sum(3) * ys).sum(-1)], -1)
        sampled = nn.functional.grid_sample(features, position[:, None], align_corners=False)
        score, best = heat.flatten(2).topk(1)
        return position, sampled, torch.cat([score, best % width, best // width], -1)


class Conformer(nn.Module):
    """A block of a Conformer: feed forward, attention, depthwise convolution, feed forward."""

    def __init__(self) -> None:
        """Make the layers of one block."""
        super().__init__()
        self.subsample = nn.Conv1d(16, 16, 3, 2, 1)
        self.first, self.second = _feed_forward(), _feed_forward()
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(3)])
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.gate, self.depth = nn.Conv1d(16, 32, 1), nn.Conv1d(16, 16, 15, padding=7, groups=16)
        self.norm, self.point = nn.BatchNorm1d(16), nn.Conv1d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states [N, (T + 1) // 2, 16] of frames ``x`` [N, T, 16]."""
        x = self.subsample(x.transpose(1, 2)).transpose(1, 2)
        x = x + 0.5 * self.first(x)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = nn.functional.glu(self.gate(self.norms[1](x).transpose(1, 2)), 1)
        x = x + self.point(nn.functional.silu(self.norm(self.depth(y)))).transpose(1, 2)
        return self.norms[2](x + 0.5 * self.second(x))


class WaveNet(nn.Module):
    """Causal dilated convolutions with gated activations and skip connections."""

    def __init__(self) -> None:
        """Make five layers of convolutions."""
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(5)])
        self.out = nn.Conv1d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return frames [N, 8, T], one for each input frame of ``x`` [N, T, 16]."""
        x, skip = x.transpose(1, 2), 0
        for index, layer in enumerate(self.layers):
            a, b = layer(nn.functional.pad(x, (2**index, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, skip = x + y, skip + y
        return self.out(torch.relu(skip))


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.SiLU())


def _feed_forward() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 16))


def _recurrent(name: str, kind: type[nn.RNNBase], **options: int | bool) -> Model:
    return Model(name, lambda: Recurrent(kind, **options), FRAMES, SEQUENCES)


def _pictures(make: Callable[[], nn.Module]) -> Model:
    name = getattr(make, "__name__", "").lower()
    return Model(name, make, image(("height", "width")), SIZED_IMAGES)


MODELS = (
    _recurrent("lstm", nn.LSTM, num_layers=2),
    _recurrent("lstm_bidirectional", nn.LSTM, bidirectional=True),
    _recurrent("gru", nn.GRU, num_layers=2),
    _recurrent("gru_bidirectional", nn.GRU, bidirectional=True),
    _recurrent("rnn", nn.RNN),
    Model(
        "lstm_packed",
        Packed,
        (
            Input("ids", ("batch", "length"), "tokens"),
            Input("lengths", ("batch",), "lengths", "length"),
        ),
        tuple({"batch": 1 + i % 3, "length": n} for i, n in enumerate(LENGTHS)),
    ),
    Model("encoder", Encoder, (*FRAMES, Input("mask", ("batch", "length"), "mask")), SEQUENCES),
    Model(
        "translator",
        Translator,
        (*FRAMES, Input("target", ("batch", "steps", 16))),
        tuple({**case, "steps": 1 + 9 * i} for i, case in enumerate(SEQUENCES)),
    ),
    Model("attention_decoder", Attention, FRAMES, SEQUENCES),
    Model("conformer", Conformer, FRAMES, SEQUENCES),
    Model("wavenet", WaveNet, FRAMES, SEQUENCES),
    _pictures(UNet),
    _pictures(Yolo),
    _pictures(Keypoints),
)
