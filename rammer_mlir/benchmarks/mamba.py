"""Build selective state space models (Mamba); their recurrences are loops over frames.

A frame is the vector of a sequence at one time step. There are two kinds of models:

- ``written``: written by hand. An iteration of its Loop reads a single frame, and the results of
  all iterations are stacked.
- ``exported``: a speech enhancement model with exactly the nodes that PyTorch's TorchScript
  exporter writes. The recurrence is the scripted function ``selective_scan_ref`` of
  state-spaces/mamba: each iteration slices tensors such as ``deltaA[:, :, i]``, and appends its
  result to a sequence.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Feeds = dict[str, NDArray[np.generic]]

HEADER = '<ir_version: 8, opset_import: ["": 17]> g '


def floats(*shape: int) -> NDArray[np.float32]:
    """Return an f32 array of normally distributed numbers, always from seed 0."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def filled(text: str, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """Parse a graph in ONNX's textual syntax, and return its model with random weights.

    ``shapes`` has the shape of each weight by name.
    """
    model = onnx.parser.parse_model(HEADER + text)
    rng = np.random.default_rng(1)
    for name, shape in shapes.items():
        values = rng.standard_normal(shape).astype(np.float32) / np.sqrt(shape[0], dtype=np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def written(
    layers: int, steps: int, width: int = 256, states: int = 16
) -> tuple[onnx.ModelProto, Feeds]:
    """Return a Mamba model with ``layers`` layers, and its inputs: ``x`` [1, steps, width].

    Each layer has a Loop of ``steps`` iterations, one for each frame. The state of the Loop has
    ``states`` elements for each channel.
    """
    inner, rank = 2 * width, width // 16
    nodes = ["v0 = Identity(x)"]
    shapes: dict[str, tuple[int, ...]] = {}
    for n in range(layers):
        nodes.append(_WRITTEN.replace("@", str(n)).replace("#", str(n + 1)))
        shapes |= {
            f"in{n}": (width, 2 * inner),
            f"sel{n}": (inner, rank + 2 * states),
            f"dt{n}": (rank, inner),
            f"A{n}": (inner, states),
            f"D{n}": (inner,),
            f"out{n}": (inner, width),
        }
    constants = f"""
      halves = Constant<value_ints = [{inner}, {inner}]>()
      parts = Constant<value_ints = [{rank}, {states}, {states}]>()
      last = Constant<value_ints = [-1]>()  second = Constant<value_ints = [2]>()
      count = Constant<value_int = {steps}>()  true = Constant<value = bool {{1}}>()
      none = Constant<value = float {{0.0}}>()  hs = Constant<value_ints = [1, {inner}, {states}]>()
      begin = Expand(none, hs)  one = Constant<value = float {{1.0}}>()
      width = Constant<value_ints = [{width}]>()  ones = Expand(one, width)"""
    text = f"""(float[1,{steps},{width}] x) => (float[1,{steps},{width}] y) {{ {constants}
      {" ".join(nodes)}  y = Identity(v{layers}) }}"""
    return filled(text, shapes), {"x": floats(1, steps, width)}


def exported(
    layers: int,
    samples: int = 1600,
    width: int = 256,
    states: int = 16,
    *,
    has_slices: bool = True,
) -> tuple[onnx.ModelProto, Feeds]:
    """Return a speech enhancement model of audio [1, 1, samples], and its inputs.

    The model has a learned filterbank of stride 8: 0.1 s of audio at 16 kHz are 200 frames. With 22
    layers the model has 9.7 million parameters.

    Args:
        layers: number of selective state space layers.
        samples: number of audio samples.
        width: number of elements of a frame.
        states: number of elements of each channel's state.
        has_slices: whether each iteration of the recurrence copies whole tensors by full slices
            (``x[:]``), as PyTorch exports the model. False gives the graph after an optimizer has
            removed the full slices.
    """
    inner, rank = 2 * width, width // 16
    shapes: dict[str, tuple[int, ...]] = {}
    nodes = ["one = Constant<value = int64 {1}>()  true = Constant<value = bool {1}>()"]
    nodes.append(f"f = Conv<{_FILTERS}>(audio, filters)  m = Relu(f)")
    nodes.append("v0 = Transpose<perm = [0, 2, 1]>(m)")
    for n in range(layers):
        layer = _exported_layer(n, has_slices=has_slices)
        for name, size in {"INNER": inner, "RANK": rank, "STATES": states}.items():
            layer = layer.replace(name, str(size))
        nodes.append(layer)
        shapes |= {
            f"norm{n}": (width,),
            f"shift{n}": (width,),
            f"in{n}": (width, 2 * inner),
            f"taps{n}": (inner, 1, 4),
            f"bias{n}": (inner,),
            f"sel{n}": (inner, rank + 2 * states),
            f"dt{n}": (rank, inner),
            f"step{n}": (inner,),
            f"A{n}": (inner, states),
            f"D{n}": (inner, 1),
            f"out{n}": (inner, width),
        }
    nodes.append(f"""last = LayerNormalization<axis = -1, epsilon = 1e-05>(v{layers}, norm, shift)
      a = MatMul(last, mask)  b = Add(bias, a)  c = Sigmoid(b)
      d = Transpose<perm = [0, 2, 1]>(c)  e = Mul(m, d)
      clean = ConvTranspose<{_FILTERS}>(e, synthesis)""")
    shapes |= {
        "filters": (width, 1, 16),
        "synthesis": (width, 1, 16),
        "norm": (width,),
        "shift": (width,),
        "mask": (width, width),
        "bias": (width,),
    }
    text = f"(float[1,1,samples] audio) => (float[1,1,T] clean) {{ {' '.join(nodes)} }}"
    return filled(text, shapes), {"audio": floats(1, 1, samples)}


_FILTERS = "dilations = [1], group = 1, kernel_shape = [16], pads = [4, 4], strides = [8]"

_WRITTEN = """
  n@ = LayerNormalization(v@, ones)  p@ = MatMul(n@, in@)
  u@, z@ = Split<axis = -1>(p@, halves)  f@ = Sigmoid(u@)  q@ = Mul(u@, f@)
  r@ = MatMul(q@, sel@)  d@, B@, C@ = Split<axis = -1>(r@, parts)
  e@ = MatMul(d@, dt@)  delta@ = Softplus(e@)  d4@ = Unsqueeze(delta@, last)
  g@ = Exp(A@)  m@ = Neg(g@)  a@ = Mul(d4@, m@)  dA@ = Exp(a@)
  dq@ = Mul(delta@, q@)  dq4@ = Unsqueeze(dq@, last)  B4@ = Unsqueeze(B@, second)
  dB@ = Mul(dq4@, B4@)  C4@ = Unsqueeze(C@, second)
  h@, s@ = Loop(count, true, begin) <body = b@ (int64 i, bool c, float[A,B,E] h)
    => (bool go, float[A,B,E] k, float[A,B] o) {
      go = Identity(c)  da = Gather<axis = 1>(dA@, i)  db = Gather<axis = 1>(dB@, i)
      cc = Gather<axis = 1>(C4@, i)  hd = Mul(h, da)  k = Add(hd, db)
      hc = Mul(k, cc)  o = ReduceSum<keepdims = 0>(hc, last) }>
  t@ = Transpose<perm = [1, 0, 2]>(s@)  qd@ = Mul(q@, D@)  w@ = Add(t@, qd@)
  zf@ = Sigmoid(z@)  zz@ = Mul(z@, zf@)  ww@ = Mul(w@, zz@)  oo@ = MatMul(ww@, out@)
  v# = Add(v@, oo@)"""


def _exported_layer(number: int, *, has_slices: bool) -> str:
    """Return the ONNX text of the nodes of the layer with the index ``number``.

    Layer 0 also has the constants that all layers share. With ``has_slices``, an iteration of the
    recurrence reads a frame by several Slice nodes and a Gather, as PyTorch exports the model;
    without, by a Gather only.
    """
    shared = {
        "ZERO": "zero = Constant<value = int64 {0}>()",
        "PARTS": "parts = Constant<value = int64[3] {RANK, STATES, STATES}>()",
    }
    layer = _EXPORTED.replace("@", str(number)).replace("#", str(number + 1))
    for name, text in shared.items():
        layer = layer.replace(name, "" if number else text)
    frames = {"FRAME_A": ("deltaA", "fa"), "FRAME_B": ("deltaB", "fb"), "FRAME_C": ("Ct", "fc")}
    for name, (value, result) in frames.items():
        frame = _frame(f"{value}{number}", result, has_slices=has_slices)
        layer = layer.replace(name, frame)
    return layer


def _whole(value: str, tag: str, axis: str) -> str:
    """Return the ONNX text of the nodes of ``tag = value[:]``, a Slice that copies a whole tensor.

    ``axis`` is the name of the constant with the slice's axis. ``value`` is the tensor's name. The
    names of all results of the nodes begin with ``tag``.
    """
    return f"""
      {tag}p = Constant<value = int64[1] {{0}}>()  {tag}a = Unsqueeze({axis}, {tag}p)
      {tag}b = Constant<value = int64[1] {{0}}>()
      {tag}e = Constant<value = int64[1] {{9223372036854775807}}>()
      {tag}q = Constant<value = int64[1] {{0}}>()  {tag}s = Unsqueeze(one, {tag}q)
      {tag} = Slice({value}, {tag}b, {tag}e, {tag}a, {tag}s)"""


def _frame(value: str, result: str, *, has_slices: bool) -> str:
    """Return the ONNX text of the nodes of ``result = value[:, :, i]`` for iteration ``i``.

    With ``has_slices``, the nodes are those that PyTorch's exporter writes: full slices followed by
    a Gather. Otherwise the only node is a Gather.
    """
    if not has_slices:
        return f"{result} = Gather<axis = 2>({value}, i)"
    tag = f"{result}_"
    rows, columns = _whole(value, f"{tag}r", "zero"), _whole(f"{tag}r", f"{tag}c", "one")
    return f"{rows} {columns} {result} = Gather<axis = 2>({tag}c, i)"


_EXPORTED = """
  n@ = LayerNormalization<axis = -1, epsilon = 1e-05>(v@, norm@, shift@)
  sa@ = Shape(n@)  ca@ = Constant<value = int64 {1}>()  length@ = Gather<axis = 0>(sa@, ca@)
  p@ = MatMul(n@, in@)  pt@ = Transpose<perm = [0, 2, 1]>(p@)
  sb@ = Shape(pt@)  cb@ = Constant<value = int64[1] {1}>()  gb@ = Gather<axis = 0>(sb@, cb@)
  cc@ = Constant<value = int64[1] {0}>()  cd@ = Constant<value = int64[1] {1}>()
  ab@ = Add(gb@, cd@)  ce@ = Constant<value = int64[1] {2}>()  half@ = Div(ab@, ce@)
  cf@ = Constant<value = int64[1] {1}>()  ma@ = Mul(half@, cf@)  x@ = Slice(pt@, cc@, ma@, cb@)
  cg@ = Constant<value = int64[1] {2}>()  mb@ = Mul(half@, cg@)  z@ = Slice(pt@, ma@, mb@, cb@)
  w@ = Conv<dilations = [1], group = INNER, kernel_shape = [4], pads = [3, 3], strides = [1]>
    (x@, taps@, bias@)
  ZERO  ch@ = Constant<value = int64[1] {2}>()
  ci@ = Constant<value = int64[1] {0}>()  cj@ = Constant<value = int64[1] {0}>()
  end@ = Unsqueeze(length@, cj@)  ck@ = Constant<value = int64[1] {1}>()
  causal@ = Slice(w@, ci@, end@, ch@, ck@)  sg@ = Sigmoid(causal@)  u@ = Mul(causal@, sg@)
  ut@ = Transpose<perm = [0, 2, 1]>(u@)  r@ = MatMul(ut@, sel@)
  PARTS
  d@, B@, C@ = Split<axis = -1>(r@, parts)
  dm@ = MatMul(d@, dt@)  da@ = Add(step@, dm@)  ds@ = Softplus(da@)
  delta@ = Transpose<perm = [0, 2, 1]>(ds@)  ea@ = Exp(A@)  na@ = Neg(ea@)
  Bt@ = Transpose<perm = [0, 2, 1]>(B@)  Ct@ = Transpose<perm = [0, 2, 1]>(C@)
  sc@ = Shape(u@)  cl@ = Constant<value = int64 {0}>()  batch@ = Gather<axis = 0>(sc@, cl@)
  cm@ = Constant<value = int64[1] {0}>()  ba@ = Unsqueeze(batch@, cm@)
  cn@ = Constant<value = int64[1] {INNER}>()  co@ = Constant<value = int64[1] {STATES}>()
  hs@ = Concat<axis = 0>(ba@, cn@, co@)  h@ = ConstantOfShape<value = float[1] {0}>(hs@)
  dA@ = Einsum<equation = "bdl,dn->bdln">(delta@, na@)  deltaA@ = Exp(dA@)
  deltaB@ = Einsum<equation = "bdl,bnl,bdl->bdln">(delta@, Bt@, u@)
  empty@ = SequenceEmpty<dtype = 1>()  cp@ = Constant<value = int64 {2}>()
  frames@ = Gather<axis = 0>(sc@, cp@)
  hl@, ys@ = Loop(frames@, true, h@, empty@) <body = body@
    (int64 i, bool go, float[A,B,C] x, seq(float[?,?]) ys)
    => (bool on, float[A,B,C] k, seq(float[?,?]) more) {
    FRAME_A  ka = Mul(fa, x)
    FRAME_B  k = Add(ka, fb)
    FRAME_C  y = Einsum<equation = "bdn,bn->bd">(k, fc)
    more = SequenceInsert(ys, y)  on = Identity(true) }>
  yt@ = ConcatFromSequence<axis = 2, new_axis = 1>(ys@)
  ud@ = Mul(u@, D@)  ya@ = Add(yt@, ud@)  zs@ = Sigmoid(z@)  zz@ = Mul(z@, zs@)
  yz@ = Mul(ya@, zz@)  yo@ = Transpose<perm = [0, 2, 1]>(yz@)  o@ = MatMul(yo@, out@)
  v# = Add(v@, o@)"""
