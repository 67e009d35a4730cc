"""Cases of equivalent models: a model that is written in another way computes the same."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
import onnx.version_converter
from onnx import helper, numpy_helper

from rammer_mlir.errors import RammerError
from tests.fuzz import models
from tests.fuzz.arrays import Array, feeds_of
from tests.fuzz.case import Case, Json, Problem
from tests.fuzz.oracle import Rejected, all_values, run_reference

Nodes = list[onnx.NodeProto]
Values = dict[str, Array]


class Site:
    """A model that the fuzzer rewrites into an equivalent one, with its values in a run.

    Attributes:
        model: the model, which is changed in place.
        values: arrays of the original model's values by name.
        random: generator of random choices.
    """

    def __init__(self, model: onnx.ModelProto, values: Values, chance: random.Random) -> None:
        """Prepare to rewrite ``model`` in place, by the random choices of ``chance``."""
        self.model, self.values, self.random = model, values, chance
        self._count = 0

    def fresh(self) -> str:
        """Return a name that no value of the model has."""
        self._count += 1
        return f"r{self._count}_{len(self.model.graph.node)}"

    def constant(self, array: Array) -> str:
        """Add an initializer; return its name."""
        name = self.fresh()
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def integers(self, *numbers: int) -> str:
        """Add an initializer of int64; return its name."""
        return self.constant(np.array(numbers, np.int64))

    def choose(self, *operators: str) -> int:
        """Return the index of a random node of one of the given operators, or of any operator.

        Raises:
            Rejected: if there is no such node.
        """
        found = [n for n, node in enumerate(self.model.graph.node)
                 if not operators or (node.op_type in operators and not node.domain)]  # fmt: skip
        if not found:
            raise Rejected("no such node")
        return self.random.choice(found)

    def replace(self, number: int, nodes: Nodes) -> None:
        """Replace the node with the index ``number`` by other nodes."""
        copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in self.model.graph.node]
        copies[number : number + 1] = nodes
        del self.model.graph.node[:]
        self.model.graph.node.extend(copies)

    def around(self, number: int, front: Callable[[str], Nodes]) -> None:
        """Insert nodes between the node with the index ``number`` and one of its operands.

        ``front`` maps the operand's name to the new nodes; the last of them gives the new operand.
        """
        node = onnx.NodeProto.FromString(self.model.graph.node[number].SerializeToString())
        places = [i for i, name in enumerate(node.input) if name in self.values]
        if not places:
            raise Rejected("reads nothing")
        place = self.random.choice(places)
        new = front(node.input[place])
        node.input[place] = new[-1].output[0]
        self.replace(number, [*new, node])


def insert_identity(site: Site) -> None:
    """Insert an Identity before a random operand of a node."""
    number = site.choose()
    site.around(number, lambda x: [helper.make_node("Identity", [x], [site.fresh()])])


def insert_transposes(site: Site) -> None:
    """Insert two Transposes, which cancel, before a random operand of a node."""
    number = site.choose()

    def front(x: str) -> Nodes:
        rank = site.values[x].ndim
        if rank < 2:
            raise Rejected("a vector")
        perm = site.random.sample(range(rank), rank)
        back = [perm.index(axis) for axis in range(rank)]
        first = helper.make_node("Transpose", [x], [site.fresh()], perm=perm)
        return [first, helper.make_node("Transpose", first.output, [site.fresh()], perm=back)]

    site.around(number, front)


def insert_reshapes(site: Site) -> None:
    """Insert two Reshapes, to a vector and back, before a random operand of a node."""
    number = site.choose()

    def front(x: str) -> Nodes:
        shape = site.values[x].shape
        if 0 in shape:
            raise Rejected("a size of 0 is copied")
        first = helper.make_node("Reshape", [x, site.integers(-1)], [site.fresh()])
        shaped = site.integers(*shape)
        return [first, helper.make_node("Reshape", [first.output[0], shaped], [site.fresh()])]

    site.around(number, front)


def insert_slices(site: Site) -> None:
    """Insert two Slices and a Concat of them before a random operand of a node."""
    number = site.choose()

    def front(x: str) -> Nodes:
        shape = site.values[x].shape
        axis = site.random.randrange(len(shape)) if shape else 0
        if not shape or shape[axis] < 2:
            raise Rejected("too small")
        cut = site.integers(site.random.randrange(1, shape[axis]))
        at = site.integers(axis)
        ends = ((site.integers(0), cut), (cut, site.integers(shape[axis])))
        parts = [helper.make_node("Slice", [x, *pair, at], [site.fresh()]) for pair in ends]
        names = [part.output[0] for part in parts]
        return [*parts, helper.make_node("Concat", names, [site.fresh()], axis=axis)]

    site.around(number, front)


def commute(site: Site) -> None:
    """Shuffle the operands of a commutative operator."""
    number = site.choose("Add", "Mul", "Max", "Min", "Sum", "And", "Or", "Xor", "Equal")
    node = site.model.graph.node[number]
    names = list(node.input)
    site.random.shuffle(names)
    node.input[:] = names


def unfuse_gemm(site: Site) -> None:
    """Replace a Gemm by Transpose, MatMul, Mul and Add."""
    number = site.choose("Gemm")
    node = site.model.graph.node[number]
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    new: Nodes = []
    dtype = site.values[node.output[0]].dtype

    def add(operator: str, *inputs: str) -> str:
        new.append(helper.make_node(operator, inputs, [site.fresh()]))
        return new[-1].output[0]

    a, b, *c = node.input
    a = add("Transpose", a) if given.get("transA") else a
    b = add("Transpose", b) if given.get("transB") else b
    y = add("Mul", add("MatMul", a, b), site.constant(np.array(given.get("alpha", 1.0), dtype)))
    if c and c[0]:
        y = add("Add", y, add("Mul", c[0], site.constant(np.array(given.get("beta", 1.0), dtype))))
    new.append(helper.make_node("Identity", [y], node.output))
    site.replace(number, new)


def split_concat(site: Site) -> None:
    """Replace a Concat of at least three values by two nested Concats."""
    number = site.choose("Concat")
    node = site.model.graph.node[number]
    names, axis = list(node.input), node.attribute[0].i
    if len(names) < 3:
        raise Rejected("too few")
    cut = site.random.randrange(1, len(names))
    inner = helper.make_node("Concat", names[:cut], [site.fresh()], axis=axis)
    outer = helper.make_node("Concat", [inner.output[0], *names[cut:]], node.output, axis=axis)
    site.replace(number, [inner, outer])


def push_transpose(site: Site) -> None:
    """Insert a Transpose before an elementwise function, and the inverse Transpose after it."""
    number = site.choose("Relu", "Tanh", "Exp", "Abs", "Neg", "Sigmoid", "Cast", "Clip", "Sqrt")
    node = onnx.NodeProto.FromString(site.model.graph.node[number].SerializeToString())
    rank = site.values[node.input[0]].ndim
    if rank < 2 or node.domain:
        raise Rejected("a vector")
    perm = site.random.sample(range(rank), rank)
    back = [perm.index(axis) for axis in range(rank)]
    front = helper.make_node("Transpose", [node.input[0]], [site.fresh()], perm=perm)
    behind = helper.make_node("Transpose", [site.fresh()], list(node.output), perm=back)
    node.input[0], node.output[0] = front.output[0], behind.input[0]
    site.replace(number, [front, node, behind])


def repeat_node(site: Site) -> None:
    """Compute a node twice, and let readers take either result at random."""
    number = site.choose()
    node = site.model.graph.node[number]
    twin = onnx.NodeProto.FromString(node.SerializeToString())
    twin.name = site.fresh()
    renamed = {name: site.fresh() for name in twin.output if name}
    twin.output[:] = [renamed.get(name, "") for name in twin.output]
    for other in list(site.model.graph.node)[number + 1 :]:
        for place, name in enumerate(other.input):
            if name in renamed and site.random.random() < 0.5:
                other.input[place] = renamed[name]
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    site.replace(number, [copy, twin])


DECIDING = frozenset(("Cast", "Identity", "Pad", "Range", "Resize"))
"""Operators whose constant operands may decide about shapes."""


def make_constant_input(site: Site) -> None:
    """Turn a constant of floats into an input, so that nothing is folded with it."""
    deciding = {n for node in site.model.graph.node if node.op_type in DECIDING
                for n in node.input}  # fmt: skip
    kind = onnx.TensorProto.FLOAT
    weights = [t for t in site.model.graph.initializer
               if t.data_type == kind and t.name not in deciding]  # fmt: skip
    if not weights:
        raise Rejected("no weights")
    tensor = site.random.choice(weights)
    info = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    site.model.graph.input.append(info)
    rest = [t for t in site.model.graph.initializer if t.name != tensor.name]
    copies = [onnx.TensorProto.FromString(t.SerializeToString()) for t in rest]
    del site.model.graph.initializer[:]
    site.model.graph.initializer.extend(copies)


def convert_opset(site: Site) -> None:
    """Convert the model to a newer opset by ONNX's version converter."""
    if any(node.domain for node in site.model.graph.node):
        raise Rejected("operators of others")
    plain = onnx.ModelProto.FromString(site.model.SerializeToString())
    opset = max(o.version for o in plain.opset_import if not o.domain)
    del plain.opset_import[:]
    plain.opset_import.append(helper.make_opsetid("", opset))
    try:
        newer = onnx.version_converter.convert_version(plain, site.random.choice((17, 21, 23)))
    except Exception as error:  # what it cannot convert
        raise Rejected(str(error)) from error
    site.model.CopyFrom(newer)


_ALL = (
    insert_identity, insert_transposes, insert_reshapes, insert_slices, commute, unfuse_gemm,
    split_concat, push_transpose, repeat_node, make_constant_input, convert_opset,
)  # fmt: skip
REWRITES: dict[str, Callable[[Site], None]] = {rewrite.__name__: rewrite for rewrite in _ALL}


def make(seed: int) -> Case:
    """Return a case: a random model, options, and the random rewritings to apply.

    Raises:
        Rejected: if the seed gives no model.
    """
    chance = random.Random(~seed)
    case = models.make(seed)
    names = chance.choices(list(REWRITES), k=chance.choice((2, 3, 6)))
    steps: list[Json] = [[name, chance.randrange(1 << 30)] for name in names]
    return Case("equivalent", seed, case.model, {**case.options, "rewrites": steps})


def rewritten(model: onnx.ModelProto, steps: Json, feeds: Values) -> onnx.ModelProto:
    """Return a copy of a model after applying those of ``steps`` that are possible.

    A step is the name of a rewriting and a seed.

    Raises:
        Rejected: if no step is possible, or ONNX Runtime refuses the model.
    """
    assert isinstance(steps, list)
    found, applied = onnx.ModelProto.FromString(model.SerializeToString()), 0
    for step in steps:
        assert isinstance(step, list)
        name, seed = step
        trial = onnx.ModelProto.FromString(found.SerializeToString())
        try:
            REWRITES[str(name)](Site(trial, all_values(trial, feeds), random.Random(str(seed))))
        except (Rejected, KeyError):
            continue
        found, applied = trial, applied + 1
    if not applied:
        raise Rejected("nothing to rewrite")
    return found


def check(case: Case) -> Problem | None:
    """Compile a model and its rewritten form; return the problem if their results differ, or None.

    An error of the compiler that refuses one of the models is returned as a problem, too.

    Raises:
        Rejected: if nothing is rewritten, or ONNX Runtime does not run the models or finds them
            different.
    """
    model = onnx.ModelProto.FromString(case.model)
    feeds = dict(feeds_of(model, case.seed))
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    other = rewritten(model, case.options["rewrites"], {**feeds, **weights})
    options = {key: value for key, value in case.options.items() if key != "rewrites"}
    inputs = {value.name for value in other.graph.input}
    more = feeds | {name: value for name, value in weights.items() if name in inputs}
    expected = run_reference(model, feeds)
    if models.different(model, feeds, expected, run_reference(other, more), case.seed):
        raise Rejected("ONNX Runtime does not find them equal")
    try:
        found = models.compile_and_run(model, feeds, options)
        again = models.compile_and_run(other, more, options)
    except RammerError as error:
        return models.refusal(error)
    return models.different(model, feeds, found, again, case.seed)
