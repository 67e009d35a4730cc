"""`rtask-legalize`: lowers the tensor programs of other compilers to the stage `linalg`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.entry import functions, is_private
from rammer_mlir.passes.legalization.aggregates import decompose_aggregates
from rammer_mlir.passes.legalization.assertions import assume_assertions
from rammer_mlir.passes.legalization.bodies import select_in_bodies
from rammer_mlir.passes.legalization.broadcasts import fold_broadcasts
from rammer_mlir.passes.legalization.complex_numbers import lower_complex
from rammer_mlir.passes.legalization.destinations import lower_destinations
from rammer_mlir.passes.legalization.dimension_sizes import lower_dimension_sizes
from rammer_mlir.passes.legalization.divisions import guard_divisions
from rammer_mlir.passes.legalization.fourier import lower_fourier_transforms
from rammer_mlir.passes.legalization.front_ends import (
    lower_affine_control_flow,
    lower_stablehlo,
    lower_tosa,
    prepare_stablehlo,
    run,
    structure_control_flow,
)
from rammer_mlir.passes.legalization.in_place import read_destinations
from rammer_mlir.passes.legalization.loop_order import order_loops
from rammer_mlir.passes.legalization.loops import lower_stablehlo_control_flow, unroll_loops
from rammer_mlir.passes.legalization.narrow_floats import compute_in_f32, expand_conversions
from rammer_mlir.passes.legalization.normalizations import lower_normalizations
from rammer_mlir.passes.legalization.resources import read_resources
from rammer_mlir.passes.legalization.rules import (
    check_before_lifting,
    check_given,
    check_legal,
    check_operations,
)
from rammer_mlir.passes.legalization.scalars import lift_scalars
from rammer_mlir.passes.legalization.scatters import lower_scatters
from rammer_mlir.passes.legalization.slices import lower_slices
from rammer_mlir.passes.legalization.sorts import lower_sorts
from rammer_mlir.passes.legalization.static_results import join_static_shapes, return_static_shapes
from rammer_mlir.passes.legalization.storage import store_elements
from rammer_mlir.passes.legalization.tm_tensor import lower_tm_tensor
from rammer_mlir.passes.legalization.triangular_systems import lower_triangular_systems
from rammer_mlir.passes.legalization.window_selections import lower_window_selections
from rammer_mlir.passes.legalization.zero_sizes import drop_empty_tensors

_SIMPLIFIED = ("canonicalize", "cse")

_INLINED = ("inline", "symbol-dce", *_SIMPLIFIED)

_SHAPES_RESOLVED = (
    "resolve-ranked-shaped-type-result-dims",
    "resolve-shaped-type-result-dims",
    *_SIMPLIFIED,
)

_ELEMENTWISE = ("func.func(convert-elementwise-to-linalg)", "canonicalize")

_GENERAL = ("linalg-generalize-named-ops", "linalg-inline-scalar-operands", *_SIMPLIFIED)


@dataclass(frozen=True)
class Legalize(Pass):
    """Lower the tensor programs of other compilers to linalg on static tensors.

    Public functions are rewritten in place. If operations cannot be compiled, a single error
    reports all of them, each with its location.
    """

    name: ClassVar[str] = "rtask-legalize"

    def run(self, module: ir.Module) -> None:
        """Rewrite the module to linalg operations on static tensors.

        Raises:
            FindingsError: if operations cannot be compiled; the error reports all of them.
        """
        structure_control_flow(module)
        check_given(module)
        read_resources(module)
        prepare_stablehlo(module)
        lower_dimension_sizes(module)
        lower_scatters(module)
        lower_window_selections(module)
        lower_triangular_systems(module)
        lower_fourier_transforms(module)
        lower_normalizations(module)
        lower_sorts(module)
        lower_tm_tensor(module)
        lower_stablehlo_control_flow(module)
        lower_stablehlo(module)
        order_loops(module)
        lower_tosa(module)
        lower_affine_control_flow(module)
        lower_destinations(module)
        run(module, *_INLINED, *_ELEMENTWISE, *_SHAPES_RESOLVED)
        join_static_shapes(module)
        run(module, *_SIMPLIFIED)
        while lower_tm_tensor(module):  # with shapes that are static only now
            run(module, *_SHAPES_RESOLVED)
        for function in functions(module):
            if not is_private(function):
                return_static_shapes(function)
        run(module, *_SIMPLIFIED)
        unroll_loops(module)
        decompose_aggregates(module)
        run(module, *_ELEMENTWISE, *_GENERAL)
        assume_assertions(module)
        for function in functions(module):
            if not is_private(function):
                read_destinations(function)
        select_in_bodies(module)
        guard_divisions(module)
        lower_slices(module)
        check_before_lifting(module)
        for function in functions(module):
            if not is_private(function):
                lift_scalars(function)
                drop_empty_tensors(function)
        check_operations(module)
        compute_in_f32(module)
        for function in functions(module):
            if not is_private(function):
                store_elements(function)
        expand_conversions(module)
        lower_complex(module)
        fold_broadcasts(module)
        run(module, *_SIMPLIFIED)
        check_legal(module)
