"""Cases of damaged model files: each is compiled, or refused in one line."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
from google.protobuf.message import DecodeError, EncodeError
from onnx import AttributeProto, TensorProto, helper

import rammer_mlir
from rammer_mlir.errors import ModelError, RammerError
from rammer_mlir.frontends.onnx import import_model
from tests.fuzz.case import Case, Problem
from tests.fuzz.models import random_model
from tests.fuzz.oracle import Rejected

DATA = "weights.bin"
"""Name of the file with external data beside every model; the file has 4 KiB."""

HOSTILE = (-(2**63), -(2**31), -7, -2, -1, 0, 1, 2, 3, 5, 63, 64, 65, 1000, 2**31 - 1, 2**31, 2**32,
           2**40, 2**62, 2**63 - 1)  # fmt: skip
"""Integers at the ends of ranges, and small integers."""

SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 100)

TEXTS = (
    # Control flow, functions, external data, operators of ONNX Runtime's, and attention.
    """<ir_version: 9, opset_import: ["": 21]> g (float[2,3] x, bool c) => (float[2,3] y)
    { y = If(c) <then_branch = a () => (float[2,3] p) { p = Neg(x) },
                 else_branch = b () => (float[2,3] q) { q = Abs(x) }> }""",
    """<ir_version: 9, opset_import: ["": 21]> g (float[2,3] x) => (float[2,3] y, float[4,2,3] z)
    <int64 n = {4}, bool t = {1}>
    { y, z = Loop(n, t, x) <body = b (int64 i, bool d, float[2,3] s)
      => (bool e, float[2,3] u, float[2,3] v) { e = Identity(d) u = Tanh(s) v = Exp(u) }> }""",
    """<ir_version: 9, opset_import: ["": 21]> g (float[3,2] x) => (float[3,2] y)
    { y = Scan(x) <num_scan_inputs = 1, body = b (float[2] s) => (float[2] u) { u = Relu(s) }> }""",
    """<ir_version: 9, opset_import: ["": 21, "own": 1]> g (float[2,3] x) => (float[2,3] y)
    { y = own.f <k = 2.5> (x) }
    <domain: "own", opset_import: ["": 21]> f <k> (a) => (b)
    { c = Constant <value_float: float = @k> () d = Mul(a, c) b = Softmax <axis = -1> (d) }""",
    """<ir_version: 9, opset_import: ["": 23]> g (float[1,2,5,8] q) => (float[1,2,5,8] y)
    { y = Attention <is_causal = 1> (q, q, q) }""",
    """<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[1,5,8] q, float[1,5,8] k) => (float[1,5,8] y)
    { y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, k) }""",
    """<ir_version: 9, opset_import: ["": 21]> g (float[4,8] x) => (float[4,8] y) <float[8,8] w>
    { y = MatMul(x, w) }""",
    """<ir_version: 9, opset_import: ["": 21]> g (float[n,m] x) => (float[k,m] y)
    <int64[1] a = {0}, int64[1] e = {3}>
    { s = Shape(x) r = Slice(s, a, e) t = Reshape(x, r) y = Concat <axis = 0> (t, x) }""",
    """<ir_version: 9, opset_import: ["": 21]> g (float[2] x) => (float[a] y)
    <int64 b = {0}, int64 e = {9}, int64 d = {3}, int64[2] s = {3, 2}>
    { r = Range(b, e, d) c = Cast <to = 1> (r) v = Unsqueeze(c, b) u = Transpose(v)
      z = ConstantOfShape(s) w = Expand(x, s) q = Add(w, z) p = Tile(q, s) y = ReduceSum(p) }""",
)


def base_model(chance: random.Random) -> onnx.ModelProto:
    """Return a valid model, to be damaged: one of ``TEXTS``, or a random model."""
    if chance.random() < 0.35:
        model = onnx.parser.parse_model(chance.choice(TEXTS))
        if any(value.name == "w" for value in model.graph.value_info):
            _make_external(model.graph.initializer.add(name="w", data_type=1, dims=[8, 8]))
        return model
    while True:
        with contextlib.suppress(Rejected):
            return random_model(chance.randrange(1 << 30))


def _make_external(tensor: TensorProto) -> None:
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", DATA), ("offset", "1024"), ("length", "256")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


Damage = Callable[[onnx.ModelProto, random.Random], None]
"""A function that damages a model in place by random choices."""


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    found = [model.graph]
    for graph in found:
        for node in graph.node:
            found += [a.g for a in node.attribute if a.HasField("g")]
    return found


def _node(model: onnx.ModelProto, chance: random.Random) -> onnx.NodeProto:
    nodes = [n for graph in _graphs(model) for n in graph.node]
    nodes += [n for function in model.functions for n in function.node]
    return chance.choice(nodes)


def _names(model: onnx.ModelProto) -> list[str]:
    nodes = [node for graph in _graphs(model) for node in graph.node]
    found = [name for node in nodes for name in (*node.input, *node.output)]
    return [*found, "", "nothing", *(v.name for v in model.graph.input)]


def _tensor(model: onnx.ModelProto, chance: random.Random) -> TensorProto:
    tensors = [t for graph in _graphs(model) for t in graph.initializer]
    for graph in _graphs(model):
        tensors += [a.t for n in graph.node for a in n.attribute if a.HasField("t")]
    return chance.choice(tensors)


def rewire(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: let a node read another value, possibly its own result, or none."""
    node = _node(model, chance)
    node.input[chance.randrange(len(node.input))] = chance.choice(_names(model))


def rename(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: change a node's operator, its domain, or the name of its result."""
    node = _node(model, chance)
    others = [_node(model, chance).op_type, *chance.sample(OPERATORS, 6), "NoSuchOperator", ""]
    match chance.randrange(4):
        case 0:
            node.output[0] = chance.choice(_names(model))
        case 1:
            node.domain = chance.choice(("", "ai.onnx", "com.microsoft", "own", "ai.onnx.ml"))
        case _:
            node.op_type = chance.choice(others)


OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})


def reorder(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: shuffle, repeat or remove nodes, inputs, outputs or initializers."""
    fields = (model.graph.node, model.graph.input, model.graph.output, model.graph.initializer)
    node = _node(model, chance)
    field: Any = chance.choice((*fields, node.input, node.output, node.attribute))
    entries = list(field)
    match chance.randrange(4):
        case 0:
            chance.shuffle(entries)
        case 1:
            entries.append(chance.choice(entries))
        case 2:
            del entries[chance.randrange(len(entries))]
        case _:
            entries = entries * 3
    copies = [type(e).FromString(e.SerializeToString()) if hasattr(e, "ListFields") else e
              for e in entries]  # fmt: skip
    del field[:]
    field.extend(copies)


def change_attribute(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: change an attribute's value, type or name, or add an attribute."""
    node = _node(model, chance)
    if not node.attribute or chance.random() < 0.1:
        name = chance.choice(
            ("axis", "axes", "perm", "to", "alpha", "body", "value", "kernel_shape")
        )
        node.attribute.append(helper.make_attribute(name, chance.choice(VALUES)))
        return
    attribute = chance.choice(node.attribute)
    match chance.randrange(5):
        case 0:
            changed = helper.make_attribute(attribute.name, chance.choice(VALUES))
            attribute.CopyFrom(changed)
        case 1:
            attribute.type = chance.randrange(16)  # type: ignore[assignment]
        case 2:
            attribute.name = chance.choice(("axis", "mode", "x", "", "pads", "strides"))
        case _:
            _change_numbers(attribute, chance)


VALUES: tuple[Any, ...] = (
    *HOSTILE, 0.5, float("nan"), "text", b"\xff\xfe", "", [1], [0, 0], [-1, 1], [2**62, 2**62],
    [0.5], [1, 2, 3, 4, 5, 6, 7, 8],
    helper.make_tensor("t", TensorProto.FLOAT, [2], [1, 2]),
    helper.make_tensor("t", TensorProto.INT64, [], [2**40]),
    helper.make_graph([], "empty", [], []),
)  # fmt: skip


def _change_numbers(attribute: AttributeProto, chance: random.Random) -> None:
    numbers = chance.choice((HOSTILE, SMALL, SMALL))
    if attribute.ints and chance.random() < 0.3:
        attribute.ints.append(chance.choice(numbers))
    elif attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(numbers)
    elif attribute.type == AttributeProto.INT:
        attribute.i = chance.choice(numbers)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = chance.choice((0.0, -1.0, float("nan"), float("inf"), 1e-30, 1e30))
    else:
        attribute.s = chance.choice((b"", b"x", b"SAME_UPPER", b"\xff", b"ij,jk->i...k", b"..."))


def change_constant(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: change a number of a constant, such as an axis, a size or an index."""
    tensors = [t for graph in _graphs(model) for t in graph.initializer]
    for graph in _graphs(model):
        tensors += [a.t for n in graph.node for a in n.attribute if a.HasField("t")]
    whole = [t for t in tensors if t.data_type in (TensorProto.INT64, TensorProto.INT32)]
    tensor = chance.choice(whole or tensors)
    if tensor.data_type == TensorProto.INT64 and not tensor.external_data:
        numbers = onnx.numpy_helper.to_array(tensor).copy()
        flat = numbers.reshape(-1)
        flat[chance.randrange(flat.size)] = chance.choice(chance.choice((HOSTILE, SMALL)))
        if chance.random() < 0.2:
            numbers = numbers.repeat(2, -1) if numbers.ndim else numbers.reshape(1)
        tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, tensor.name))
    else:
        damage_tensor(model, chance)


def damage_tensor(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: change a constant's type, shape, bytes, name or external data."""
    tensor = _tensor(model, chance)
    match chance.randrange(6):
        case 0:
            tensor.data_type = chance.randrange(-1, 30)
        case 1:
            tensor.dims.append(chance.choice(HOSTILE))
        case 2 if tensor.dims:
            tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(HOSTILE)
        case 3:
            tensor.raw_data = tensor.raw_data[: chance.randrange(1 + len(tensor.raw_data))]
        case 4:
            _damage_external(tensor, chance)
        case _:
            tensor.name = chance.choice(_names(model))


def _damage_external(tensor: TensorProto, chance: random.Random) -> None:
    if not tensor.external_data:
        _make_external(tensor)
    entry = chance.choice(tensor.external_data)
    if entry.key == "location":
        entry.value = chance.choice(
            ("/etc/passwd", "../x", "", ".", "no such file", "/dev/zero", DATA)
        )
    else:
        entry.value = str(chance.choice((*HOSTILE, "x", "", "1e3", "0x10", " 256", "٣")))
    if chance.random() < 0.2:
        entry.key = chance.choice(("", "offset", "length", "location", "checksum"))


def change_interface(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: change or remove the shape or the type of a declared value."""
    value = chance.choice([*model.graph.input, *model.graph.output, *model.graph.value_info])
    tensor = value.type.tensor_type
    match chance.randrange(6):
        case 0:
            tensor.elem_type = chance.randrange(-1, 30)
        case 1:
            tensor.ClearField("shape")
        case 2:
            value.ClearField("type")
        case 3 if tensor.shape.dim:
            tensor.shape.dim[chance.randrange(len(tensor.shape.dim))].dim_value = chance.choice(
                chance.choice((HOSTILE, SMALL))
            )
        case 4 if tensor.shape.dim:
            tensor.shape.dim[chance.randrange(len(tensor.shape.dim))].dim_param = chance.choice(
                "nk"
            )
        case _:
            for _ in range(chance.choice((1, 2, 70))):
                tensor.shape.dim.add().dim_value = chance.choice((1, 1, 2))


def change_header(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: change its versions, domains, functions or name."""
    match chance.randrange(6):
        case 0:
            model.ir_version = chance.choice(HOSTILE)
        case 1:
            model.opset_import[0].version = chance.choice((*HOSTILE, 6, 7, 9, 12, 13, 22, 30))
        case 2:
            model.opset_import[0].domain = chance.choice(("own", "ai.onnx", "com.microsoft"))
        case 3:
            model.opset_import.extend([model.opset_import[0]])
        case 4:
            model.ClearField(chance.choice(("graph", "opset_import", "functions")))
        case _:
            model.graph.name = chance.choice(("", "\0", "x" * 10000))


def nest(model: onnx.ModelProto, chance: random.Random) -> None:
    """Damage a model: nest the graph in many If operators, or put a long chain before a node."""
    node = _node(model, chance)
    if chance.random() < 0.5:
        depth, source = chance.choice((100, 3000)), node.input[0]
        names = [source, *(f"n{i}" for i in range(depth))]
        chain = [helper.make_node("Identity", [a], [b]) for a, b in pairwise(names)]
        node.input[0] = names[-1]
        model.graph.node.extend(chain)
        return
    for level in range(chance.choice((3, 40))):
        inner = onnx.GraphProto.FromString(model.graph.SerializeToString())
        del inner.input[:]
        outputs = [f"{value.name}_{level}" for value in model.graph.output]
        given = list(model.graph.input)
        choice = helper.make_node("If", ["c"], outputs, then_branch=inner, else_branch=inner)
        model.graph.CopyFrom(helper.make_graph([choice], "outer", given, list(model.graph.output)))
        if model.ByteSize() > 1 << 20:
            break


DAMAGES: tuple[Damage, ...] = (
    rewire, rewire, rename, rename, reorder, reorder, change_attribute, change_attribute,
    change_attribute, change_constant, change_constant, damage_tensor, change_interface,
    change_interface, change_header, nest,
)  # fmt: skip


def damage_bytes(content: bytes, chance: random.Random) -> bytes:
    """Return ``content`` with some bytes changed, removed or inserted at random places."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place = chance.randrange(len(changed) or 1)
        match chance.randrange(5):
            case 0:
                del changed[place:]
            case 1:
                del changed[place : place + chance.randrange(9)]
            case 2:
                changed[place:place] = chance.randbytes(chance.randrange(9))
            case _:
                changed[place : place + 1] = bytes([chance.randrange(256)])
    return bytes(changed)


def make(seed: int) -> Case:
    """Return a case: a model file that is damaged in its fields and perhaps in its bytes."""
    chance = random.Random(seed)
    model = base_model(chance)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        with contextlib.suppress(IndexError, ValueError, TypeError):  # nothing there to damage
            chance.choice(DAMAGES)(model, chance)
    try:
        content = model.SerializeToString()
    except (EncodeError, DecodeError) as error:
        raise Rejected(str(error)) from error
    if chance.random() < 0.3:
        content = damage_bytes(content, chance)
    # The front end is where damage is found, and takes a tenth of the time.
    return Case("file", seed, content, {"whole": chance.random() < 0.2})


def check(case: Case) -> Problem | None:
    """Compile or import a damaged file; return a problem if the error is not one short line."""
    with tempfile.TemporaryDirectory(prefix="rammer-fuzz-") as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(case.model)
        Path(folder, DATA).write_bytes(bytes(range(256)) * 16)
        try:
            if case.options.get("whole", True):
                rammer_mlir.compile(path, cache=False, num_veus=2, specializations=2).close()
            else:
                import_model(path)
        except RammerError as error:
            return _one_line(error)
    return None


def _one_line(error: RammerError) -> Problem | None:
    text = str(error)
    if "\n" in text:
        return Problem("several lines", text)
    if len(text) > 4000:
        return Problem("long line", f"{len(text)} characters: {text[:300]}")
    if isinstance(error, ModelError) and "Traceback" in text:
        return Problem("a traceback", text)
    return None
