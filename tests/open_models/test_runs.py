"""Tests that runs bind open dimensions to the sizes of arrays, and give ONNX Runtime's outputs.

Arrays with contradictory sizes are refused.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import rammer_mlir
from rammer_mlir.errors import (
    InputError,
    ModelError,
    ModelWarning,
    OptionError,
    ShapeError,
    TargetError,
    UnsupportedError,
)
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.programs.dimensions import OpenSignature
from rammer_mlir.runtime.executable import Executable
from tests.open_models.models import (
    check_run,
    compiled,
    decoder,
    decoder_feeds,
    expected,
    layer,
    model_of,
    weight,
)

RELU = helper.make_node("Relu", ["x"], ["y"], name="relu")


def test_batches_and_lengths() -> None:
    model = layer()
    with compiled(model) as made:
        for batch, length in ((1, 1), (3, 5), (0, 4), (1, 1)):
            check_run(model, made, {"x": weight(2, batch, length, 8)})
        assert made.specializations == [
            {"batch": 3, "length": 5}, {"batch": 0, "length": 4}, {"batch": 1, "length": 1},
        ]  # fmt: skip


def test_a_cache_grows() -> None:
    """A decoder runs with growing caches: each step's results are the next step's inputs."""
    model, feeds = decoder(), decoder_feeds(2, 1, 0)
    with compiled(model) as made:
        for past in range(3):
            check_run(model, made, feeds)
            found = made.run(feeds)
            assert found["new_k1"].shape == (2, past + 1, 8)
            feeds = {n: feeds["x"] if n == "x" else found[f"new_{n}"] for n in feeds}
        assert [sizes["past"] for sizes in made.specializations] == [0, 1, 2]


@pytest.mark.parametrize("dim", ["rows", None, -1])
def test_named_unknown_and_negative_dimensions(dim: int | str | None) -> None:
    model = model_of([RELU], {"x": [dim, 3]}, {"y": [dim, 3]})
    with compiled(model) as made:
        assert made.signature.inputs[0].shape == (dim if isinstance(dim, str) else "x[0]", 3)
        for rows in (2, 7):
            x = weight(0, rows, 3)
            np.testing.assert_array_equal(made(x), np.maximum(x, 0))


@pytest.mark.parametrize("name", ["?", "-1", "None"])
def test_names_that_are_none(name: str) -> None:
    """Dimensions with a name such as ``?`` need not have the same size.

    Exporters write these names wherever a size is unknown.
    """
    with compiled(model_of([RELU], {"x": [name, name]}, {"y": [name, name]})) as made:
        assert made.signature.symbols == ("x[0]", "x[1]")
        assert made(weight(0, 4, 3)).shape == (4, 3)


def test_specialisations_do_not_repeat_a_warning() -> None:
    model = model_of([RELU], {"x": ["rows", 3]}, {"y": [1, "columns", 3]})
    with compiled(model) as made, pytest.warns(ModelWarning) as found:
        for rows in (2, 5):
            made(weight(0, rows, 3))
    assert [str(each.message).partition(",")[0] for each in found] == [
        "output 'y': the model declares float[1"
    ]


def test_other_negative_dimensions_are_refused() -> None:
    with pytest.raises(ModelError, match="dimension 0 of 'x' is -3: expected a size, or -1 for"):
        compiled(model_of([RELU], {"x": [-3, 3]}, {"y": [None, 3]}))


def test_dimensions_without_a_name_have_one_that_no_other_has() -> None:
    model = model_of(
        [helper.make_node("Add", ["x", "z"], ["y"])],
        {"x": [None, 3], "z": ["x[0]", 3]},
        {"y": [None, 3]},
    )
    with compiled(model) as made:
        assert made.signature.symbols == ("x[0]'", "x[0]")
        assert made(weight(0, 4, 3), weight(1, 1, 3)).shape == (4, 3)


def test_an_input_of_any_shape() -> None:
    model = model_of([RELU], {"x": None}, {"y": None})
    with compiled(model) as made:
        for shape in ((), (2,), (3, 4, 5)):
            assert made(weight(0, *shape)).shape == shape
        made.prepare(shapes={"x": (6, 7)})
        assert made.specializations[-1] == {"x[0]": 6, "x[1]": 7}
        with pytest.raises(OptionError, match=r"the shape of 'x': .*shapes=\{'x': \(N, \.\.\.\)\}"):
            made.prepare()


def test_symbols_are_bound_wherever_they_stand() -> None:
    """A size given by name replaces the symbol in all inputs.

    If all sizes are given, the model becomes static; otherwise, it keeps its other open dimensions.
    """
    model = decoder()
    fixed = rammer_mlir.compile(model, dims={"batch": 1, "t": 1, "past": 3}, cache=False)
    assert isinstance(fixed, Executable)
    feeds = decoder_feeds(1, 1, 3)
    np.testing.assert_allclose(
        fixed.run(feeds)["y1"], expected(model, feeds)["y1"], rtol=1e-4, atol=1e-4
    )
    fixed.close()
    by_both = rammer_mlir.compile(
        model, dims={"past": 3}, shapes={"x": (1, 1, 8)}, cache=False, num_veus=1
    )
    assert [spec.shape for spec in by_both.signature.inputs] == [(1, 1, 8), *[(1, 3, 8)] * 4]
    by_both.close()
    with compiled(model, dims={"past": 3}) as made:
        assert made.signature.symbols == ("batch", "t")
        assert made.signature.inputs[1].shape == ("batch", 3, 8)
        check_run(model, made, feeds)
        with pytest.raises(InputError, match="'k0': expected shape batchx3x8, found 1x4x8; "):
            made.run(decoder_feeds(1, 1, 4))


def test_everything_wrong_with_arrays_is_one_message() -> None:
    feeds: dict[str, Any] = decoder_feeds(2, 1, 7)
    feeds["v0"] = weight(0, 2, 8, 8)
    feeds["k1"] = feeds["k1"].astype(np.float64)
    feeds["other"] = feeds.pop("v1")
    with compiled(decoder()) as made:
        for _ in range(2):  # also where a specialization is at hand
            with pytest.raises(InputError) as caught:
                made.run(feeds)
            message = str(caught.value)
            assert "\n" not in message
            for part in (
                "unknown input 'other'", "input 'v1' is missing", "'past' is 7 in k0, 8 in v0",
                "input 'k1': expected dtype float32, found float64",
            ):  # fmt: skip
                assert part in message
            made.run(decoder_feeds(2, 1, 7))


def test_wrong_types_of_a_known_binding() -> None:
    with compiled(layer()) as made:
        made.run({"x": weight(0, 2, 3, 8)})
        with pytest.raises(InputError, match="'x': expected dtype float32, found float64") as error:
            made.run({"x": np.zeros((2, 3, 8))})
        assert "this shape alone" not in str(error.value)
        with pytest.raises(InputError, match="output 'y'"):
            made.run({"x": weight(0, 2, 3, 8)}, {"y": np.zeros(3)})
        for wrong in ([], None):
            with pytest.raises(InputError, match="expected a mapping"):
                made.run(wrong)  # type: ignore[arg-type]


def test_a_symbol_that_stands_twice_in_an_input() -> None:
    model = model_of([RELU], {"x": ["n", "n"]}, {"y": ["n", "n"]})
    with compiled(model) as made:
        assert made(weight(0, 3, 3)).shape == (3, 3)
        with pytest.raises(InputError, match=r"'n' is 3 in x\[0\], 4 in x\[1\]"):
            made(weight(0, 3, 4))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"dims": {"none": 1}},
            "unknown dimension 'none': the model's open dimensions are 'batch'",
        ),
        (
            {"dims": {"past": -1}},
            "dims: expected an integer of at least 0 for 'past', found -1",
        ),
        ({"dims": {"past": 1.5}}, "dims: expected an integer of at least 0 for 'past'"),
        ({"dims": 3}, "dims: expected a mapping from dimensions to sizes, found 3"),
        ({"specializations": 0}, "specializations: expected an integer of at least 1, found 0"),
        (
            {"shapes": {"k0": (1, 7, 8), "v0": (1, 8, 8)}},
            "'past' is 7 in k0, 8 in v0: give each dimension one size",
        ),
        ({"shapes": {"k0": (1, 7, 8)}, "dims": {"past": 8}}, "'past' is 7 in k0, 8 in dims: "),
        ({"shapes": {"k0": (1, 7, 9)}}, "input 'k0': dimension 2 is 8 in the model, found 9"),
        ({"policy": "none"}, "none"),
        ({"num_veus": 0}, "number of vEUs"),
    ],
)
def test_refused_when_compiled(given: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, ShapeError)) as caught:
        compiled(decoder(), **given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_unsupported_operators_are_refused_before_a_run() -> None:
    """A single error names all unsupported operators when the model is compiled, before any run."""
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="foreign", domain="our.domain"),
        helper.make_node("Multinomial", ["a"], ["b"], name="random", dtype=TensorProto.INT32),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    with pytest.raises(UnsupportedError) as caught:
        compiled(model_of(nodes, {"x": ["batch", 3]}, {"y": None}))
    assert "'foreign'" in str(caught.value) and "'random'" in str(caught.value)


def test_operators_that_sizes_fold_are_not_refused() -> None:
    """An operator that is constant once the sizes are known is not refused.

    Here, NonZero reads a tensor of ones that has the shape of an input.
    """
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Equal", ["zeros", "zero"], ["ones"]),
        helper.make_node("NonZero", ["ones"], ["places"]),
        helper.make_node("Cast", ["places"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["floats"], ["total"], keepdims=0),
        helper.make_node("Add", ["x", "total"], ["y"]),
    ]
    zero = np.zeros((), np.float32)
    model = model_of(nodes, {"x": ["n"]}, {"y": ["n"]}, zero=zero)
    with compiled(model) as made:
        check_run(model, made, {"x": weight(0, 3)})
        check_run(model, made, {"x": weight(0, 5)})


def test_an_error_of_one_binding_names_it() -> None:
    """An error that occurs for one binding names the binding.

    Here, the operands of a matrix product have matching shapes for ``n = 3`` only.
    """
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    model = model_of(nodes, {"x": [2, "n"]}, {"y": [2, 4]}, w=weight(0, 3, 4))
    with compiled(model) as made:
        assert made(weight(1, 2, 3)).shape == (2, 4)
        with pytest.raises(rammer_mlir.RammerError, match="for n=5: "):
            made(weight(1, 2, 5))
        assert made.specializations == [{"n": 3}]


def test_preparing() -> None:
    with compiled(layer(), specializations=4) as made:
        made.prepare(batch=[1, 2], length=range(4, 6))
        assert len(made.specializations) == 4
        made.prepare(dims={"batch": 1, "length": 4})
        made.prepare(shapes={"x": (2, 5, 8)})
        assert len(made.specializations) == 4
        for given, message in (
            ({"batch": 1}, "'length': expected a size, found none; give dims={'length': N}"),
            ({"none": 1}, "unknown dimension 'none': the model's open dimensions are 'batch', "),
            ({"batch": -1, "length": 1}, "integers of at least 0 for 'batch', found -1"),
            ({"batch": "1", "length": 1}, "integers of at least 0 for 'batch', found '1'"),
            ({"batch": [], "length": 1}, "integers of at least 0 for 'batch', found none"),
            ({"batch": range(5), "length": 1}, "at most 4 specializations"),
            ({"shapes": {"x": (1, 1)}}, "input 'x': expected shape batchxlengthx8, found 1x1"),
            ({"shapes": {"x": (1, 1, 8)}, "batch": 2}, "'batch' is 1 in x, 2 in dims"),
            ({"shapes": {"z": (1, 1)}}, "unknown input 'z'"),
            ({"shapes": {"x": 3}}, "shapes: expected integers of at least 0 for 'x', found 3"),
            ({"shapes": 3}, "shapes: expected a dict by name, found 3"),
            ({"dims": 4}, "dims: expected a dict by name, found 4"),
            ({"dims": {"batch": 1}, "batch": 2}, "dims: 'batch' is given twice"),
        ):  # fmt: skip
            with pytest.raises((OptionError, ShapeError)) as caught:
                made.prepare(**given)  # type: ignore[arg-type]
            assert message in str(caught.value)


def test_the_least_recently_used_is_closed() -> None:
    with compiled(layer(), specializations=2) as made:
        with made.specialization({"x": weight(0, 1, 1, 8)}) as first:
            made.prepare(batch=[2, 3], length=1)  # the first is in use, and dropped
            assert [sizes["batch"] for sizes in made.specializations] == [2, 3]
            first.run({"x": weight(0, 1, 1, 8)})
        with pytest.raises(TargetError, match="closed"):
            first.run({"x": weight(0, 1, 1, 8)})
        made.run({"x": weight(0, 2, 1, 8)})
        made.prepare(batch=4, length=1)
        assert [sizes["batch"] for sizes in made.specializations] == [2, 4]
    with pytest.raises(TargetError, match="the model is closed"):
        made.run({"x": weight(0, 2, 1, 8)})


def test_threads_run_different_bindings_at_once() -> None:
    """Three threads run three bindings at the same time, but a model keeps only two programs.

    Programs are therefore compiled and closed while other programs run.
    """
    model = layer()
    wrong: list[object] = []
    feeds = [{"x": weight(n, 1 + n, 3, 8)} for n in range(3)]
    references = [expected(model, each)["y"] for each in feeds]

    def work(made: OpenModel, first: int) -> None:
        try:
            for step in range(20):
                number = (first + step // 5) % 3
                found = made.run(feeds[number])["y"]
                np.testing.assert_allclose(found, references[number], rtol=1e-4, atol=1e-4)
        except BaseException as error:
            wrong.append(error)

    with compiled(model, specializations=2, num_veus=1) as made:
        threads = [threading.Thread(target=work, args=(made, n)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(made.specializations) == 2


def test_recording_and_pinning() -> None:
    with compiled(layer(), num_veus=1) as made:
        made.pin([0])
        assert made.record({"x": weight(0, 2, 3, 8)}).title == "measured"
        made.pin(None)
        assert (made.target, made.num_veus) == ("cpu", 1)
        assert "batch=2, length=3" in made.summary
        assert sum(made.stats["seconds"].values()) > 0


def test_an_emulated_gpu() -> None:
    model = layer()
    with compiled(model, target="nvvm:sm_90", emulate=True, num_veus=2) as made:
        for batch in (1, 3):
            check_run(model, made, {"x": weight(0, batch, 2, 8)})
        assert made.target == "nvvm:sm_90"
        with pytest.raises(OptionError, match="timeline"):
            made.record({"x": weight(0, 1, 2, 8)})
        with pytest.raises(OptionError, match="pin: expected the target cpu, found nvvm:sm_90"):
            made.pin(None)
        with pytest.raises(OptionError, match="emulated code"):
            made.save("none.rammer")


def test_a_forked_child_runs_on() -> None:
    """A forked child can run a model that its parent has run.

    The child must not wait for a lock that is never released, or for a thread of the parent.
    """
    x = weight(0, 2, 3, 8)
    with compiled(layer(), num_veus=2) as made:
        made.run({"x": x})
        child = os.fork()
        if child == 0:
            found = made.run({"x": x})["y"].shape == (2, 3, 8)
            os._exit(0 if found else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert made.run({"x": x})["y"].shape == (2, 3, 8)


def test_a_fixed_model_is_what_it_was() -> None:
    made = rammer_mlir.compile(layer((2, 3, 8)), specializations=3, cache=False)
    assert isinstance(made, Executable)
    assert not isinstance(made.signature, OpenSignature)
    made.close()
    with pytest.raises(ShapeError, match=r"unknown dimension 'batch': .* are none"):
        rammer_mlir.compile(layer((2, 3, 8)), dims={"batch": 2}, cache=False)
