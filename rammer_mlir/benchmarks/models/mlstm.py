"""Build Dali's mLSTM, a multiplicative LSTM (Krause et al., 2016), to predict the next character.

The weights of the cell have weight normalization (Salimans and Kingma, 2016), as in Radford et al.
(2017): each column is the product of a length and a normalized direction. The classifier's weights
are not normalized.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto

from rammer_mlir.benchmarks.models import weights
from rammer_mlir.benchmarks.models.builder import GraphBuilder, Value
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.models.losses import cross_entropy
from rammer_mlir.benchmarks.models.recurrent import HIDDEN, State, StepSequence


@dataclass(frozen=True)
class MLstm:
    """Sizes of the mLSTM: batch, sequence length, hidden units, embedding, and symbols."""

    batch: int
    length: int
    hidden: int
    embedding: int
    symbols: int


MLSTM_SIZES = {
    "full": MLstm(32, 256, 4096, 64, 256),
    "reduced": MLstm(8, 16, 256, 64, 256),
    "small": MLstm(2, 3, 8, 6, 11),
}


def build_mlstm(size: Size) -> onnx.ModelProto:
    """Build the mLSTM unrolled: ``tokens`` and ``label`` [T, N] i64 to ``loss`` [] f32.

    The initial state is zero; the classifier reads all hidden states in a single product.
    """
    sizes = MLSTM_SIZES[size]
    g = GraphBuilder("mlstm", seed=43)
    shape = [sizes.length, sizes.batch]
    tokens, labels = (g.input(name, shape, TensorProto.INT64) for name in ("tokens", "label"))
    table = g.constant(weights.uniform(g.rng, [sizes.symbols, sizes.embedding], 1.0), "table")
    cell = _Cell(g, sizes)
    zero = g.constant(np.zeros([sizes.batch, sizes.hidden], np.float32), "zero_state")
    state = State(zero, zero)
    outputs: list[Value] = []
    steps = StepSequence(g, g.op("Gather", table, tokens, axis=0)).steps
    for t, x in enumerate(steps):
        with g.scope(f"step{t}"):
            state = cell.step(x, state)
        outputs.append(state.hidden)
    hidden = g.reshape(StepSequence(g, outputs).stacked, -1, sizes.hidden)
    logits = g.linear(hidden, sizes.symbols)
    g.output(cross_entropy(g, logits, g.reshape(labels, -1)), "loss")
    return g.finish()


class _Cell:
    def __init__(self, g: GraphBuilder, sizes: MLstm) -> None:
        """Add the cell's weights to ``g``; all time steps share the normalized weights."""
        self._g = g
        inputs, hidden = sizes.embedding, sizes.hidden
        with g.scope("cell"):
            self._input_factor = self._normalized(inputs, hidden)
            self._state_factor = self._normalized(hidden, hidden)
            self._input_gates = self._normalized(inputs, 4 * hidden)
            self._state_gates = self._normalized(hidden, 4 * hidden)
            self._bias = g.constant(weights.bias(g.rng, 4 * hidden), "bias")

    def _normalized(self, rows: int, columns: int) -> Value:
        """Add and return random weights [rows, columns] with weight normalization.

        Each column is ``gain * direction / norm(direction)``.
        """
        g = self._g
        drawn = weights.uniform(g.rng, [rows, columns], 1 / math.sqrt(rows))
        direction = g.constant(drawn, "weight")
        gain = g.constant(weights.scale(g.rng, columns), "gain")
        norm = g.op("ReduceL2", direction, g.integers(0), keepdims=1)
        return g.op("Mul", direction, g.op("Div", gain, norm))

    def step(self, x: Value, state: State) -> State:
        """Add nodes for a time step on x [N, embedding] from ``state``; return the next state."""
        g = self._g
        left = g.op("MatMul", x, self._input_factor)
        factor = g.op("Mul", left, g.op("MatMul", state.hidden, self._state_factor))
        entering = g.op("MatMul", x, self._input_gates)
        carried = g.op("MatMul", factor, self._state_gates)
        gates = g.op("Add", g.op("Add", entering, carried), self._bias)
        parts = g.ops("Split", gates, num_outputs=4, axis=-1)
        enter, forget, leave = (g.op("Sigmoid", part) for part in parts[:3])
        kept = g.op("Mul", forget, state.cell)
        cell = g.op("Add", kept, g.op("Mul", enter, g.op("Tanh", parts[3])))
        hidden = g.op("Mul", leave, g.op("Tanh", cell))
        return State(replace(hidden, moments=HIDDEN), cell)
