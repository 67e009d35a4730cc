"""`rtask-bufferize`: assigns buffers to tensors; rOperators then write into buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import bufferization, func, ir, memref
from rammer_mlir.dialects.rtask.external import read_external
from rammer_mlir.passes.base import Form, OperationError, Pass
from rammer_mlir.passes.fusion.placement import Placement, Storage, place
from rammer_mlir.passes.ir.called_functions import inline_called_functions
from rammer_mlir.passes.ir.chunks import CHUNK
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.entry import (
    entry_block,
    entry_function,
    functions,
    is_private,
    symbol_name,
)
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.passes.ir.layout import Layout
from rammer_mlir.passes.ir.structured import Structured, captured_values, is_generic, shape_of
from rammer_mlir.passes.legalization.front_ends import run
from rammer_mlir.passes.tiling.space import is_free

_BUFFERIZE_KERNELS = (
    "one-shot-bufferize",
    "canonicalize",
    "cse",
    "func.func(buffer-loop-hoisting)",
    "canonicalize",
)


@dataclass(frozen=True)
class Bufferize(Pass):
    """Assign to every tensor a buffer, or a view of the larger buffer that will contain it.

    rKernels are specialized to the strides of their arguments. Each intermediate is a separate
    ``memref.alloc``; `rtask-plan-memory` places them in the arena once the schedule is known. With
    ``prefer-external``, if an external rKernel can compute an rOperator, the rOperator's other
    candidates are removed before they are bufferized, as `rtask-prefer-external` does.
    """

    name: ClassVar[str] = "rtask-bufferize"
    takes: ClassVar[Form | None] = Form.TASKS

    prefer_external: bool = False

    def run(self, module: ir.Module) -> None:
        """Rewrite the entry function and the rKernels from tensors to memrefs.

        Raises:
            OperationError: if an operand needs a copy, which `rtask-insert-copies` inserts.
        """
        block = entry_block(module)
        described = described_kernels(module)
        kernels = [f.operation for f in functions(module) if symbol_name(f) in described]
        inline_called_functions(module, kernels)
        placement = place(block)
        if placement.conflicts:
            conflict = placement.conflicts[0]
            raise OperationError(
                conflict.user.operation,
                f"operand {conflict.index} cannot be used in place: expected no such operand, run "
                "rtask-insert-copies first",
            )
        _Bufferizer(module, placement, self.prefer_external).run()
        # The module is verified after this pass, and the verifier of rKernels takes a while.
        run(module, *_BUFFERIZE_KERNELS, is_verified=False)


class _Bufferizer:
    def __init__(self, module: ir.Module, placement: Placement, prefers_external: bool) -> None:
        self._module, self._prefers_external = module, prefers_external
        self._main = entry_function(module)
        self._placement = placement
        self._kernels = described_kernels(module)
        self._functions = {symbol_name(f): f for f in functions(module) if is_private(f)}
        self._variants: dict[tuple[str, tuple[ir.Type, ...]], str] = {}
        self._roots: dict[ir.Value | int, ir.Value] = {}
        self._views: dict[tuple[ir.Value | int, Layout], ir.Value] = {}

    def run(self) -> None:
        old_block = self._main.operation.regions[0].blocks[0]
        operations = list(old_block.operations)
        results = list(operations[-1].operation.operands)
        arguments = [_dense(value.type) for value in old_block.arguments]
        outputs = [_dense(value.type) for value in results]
        function, block = self._declare(arguments, outputs)
        new_arguments = list(block.arguments)
        self._roots.update(zip(old_block.arguments, new_arguments, strict=False))
        self._roots.update(enumerate(new_arguments[len(arguments) :]))
        number = 0
        for op in operations[:-1]:
            if op.operation.name == "rtask.operator":
                with ir.InsertionPoint(block), op.operation.location:
                    self._operator(op.operation, number)
                number += 1
        with ir.InsertionPoint(block), ir.Location.unknown():
            func.ReturnOp([])
        self._main.operation.erase()
        for name, old in self._functions.items():
            if name in self._kernels:
                self._kernels[name].operation.erase()
            old.operation.erase()
        function.operation.attributes["sym_name"] = self._name

    def _declare(
        self, arguments: Sequence[ir.Type], outputs: Sequence[ir.Type]
    ) -> tuple[ir.OpView, ir.Block]:
        attributes = self._main.operation.attributes
        self._name = attributes["sym_name"]
        kind = ir.FunctionType.get([*arguments, *outputs], [])
        with ir.InsertionPoint(self._main), self._main.operation.location:
            function = func.FuncOp("buffers", kind)
            block = function.add_entry_block()
        per_argument = _dictionaries(attributes, "arg_attrs", len(arguments))
        per_result = _dictionaries(attributes, "res_attrs", len(outputs))
        marked = [
            ir.DictAttr.get({**_items(entry), "rtask.output": ir.UnitAttr.get()})
            for entry in per_result
        ]
        function.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([*per_argument, *marked])
        return function, block

    def _operator(self, op: ir.Operation, number: int) -> None:
        results = list(op.results)
        buffers = [self._buffer(value) for value in [*op.operands, *results]]
        signature = tuple(_kernel_type(buffer.type) for buffer in buffers)
        references = ir.ArrayAttr(op.attributes["kernels"])
        names = [ir.FlatSymbolRefAttr(reference).value for reference in references]
        fitting = [n for n in names if self._fits(n, signature) and self._is_aligned(n, op)]
        if not fitting:
            raise OperationError(
                op,
                "expected an rKernel that takes operands with strides, found external ones alone, "
                "which take dense and aligned buffers; offer one of the compiler's own beside them",
            )
        if self._prefers_external:
            # The time of MLIR's bufferization grows with the cube of a function's operations, and
            # a region's own candidate may have thousands.
            fitting = [name for name in fitting if self._is_external(name)] or fitting
        kernels = [ir.FlatSymbolRefAttr.get(self._variant(name, signature)) for name in fitting]
        ir.Operation.create(
            "rtask.operator",
            operands=buffers,
            attributes={
                "kernels": ir.ArrayAttr.get(kernels),
                "operator_id": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number),
                **({CHUNK: op.attributes[CHUNK]} if CHUNK in op.attributes else {}),
            },
        )

    def _fits(self, name: str, signature: Sequence[ir.Type]) -> bool:
        """Whether the rKernel ``name`` accepts memrefs of the types in ``signature``.

        An external rKernel accepts only dense memrefs, the compiler's rKernels accept any strides.
        """
        has_body = bool(len(self._functions[name].operation.regions[0].blocks))
        return has_body or all(kind == _dense(kind) for kind in signature)

    def _is_external(self, name: str) -> bool:
        return read_external(self._kernels[name].operation) is not None

    def _is_aligned(self, name: str, op: ir.Operation) -> bool:
        """Whether rOperator ``op``'s buffers have the alignment that the rKernel ``name`` needs."""
        external = read_external(self._kernels[name].operation)
        if external is None or external.alignment == 1:
            return True
        values = (*op.operands, *op.results)
        return all(self._placement.is_aligned(value, external.alignment) for value in values)

    def _buffer(self, value: ir.Value) -> ir.Value:
        storage = self._placement.storage[value]
        key = (storage.root, storage.layout)
        if key not in self._views:
            root = self._root(storage)
            self._views[key] = _view(root, storage.layout)
        return self._views[key]

    def _root(self, storage: Storage) -> ir.Value:
        if storage.root not in self._roots:
            assert not isinstance(storage.root, int)
            self._roots[storage.root] = memref.AllocOp(_dense(storage.root.type), [], []).result
        return self._roots[storage.root]

    def _variant(self, name: str, signature: tuple[ir.Type, ...]) -> str:
        key = (name, signature)
        if key not in self._variants:
            taken = sum(1 for other, _ in self._variants if other == name)
            variant = f"{name}_b{taken}" if taken else f"{name}_b"
            _bufferized(self._functions[name], variant, signature)
            description = self._kernels[name].operation.clone(
                ip=ir.InsertionPoint(self._functions[name])
            )
            description.attributes["function"] = ir.FlatSymbolRefAttr.get(variant)
            self._variants[key] = variant
        return self._variants[key]


def _dictionaries(attributes: ir.OpAttributeMap, key: str, count: int) -> list[ir.DictAttr]:
    if key in attributes:
        return [ir.DictAttr(entry) for entry in ir.ArrayAttr(attributes[key])]
    return [ir.DictAttr.get({})] * count


def _items(dictionary: ir.DictAttr) -> dict[str, ir.Attribute]:
    return {entry.name: entry.attr for entry in dictionary}


def _dense(kind: ir.Type) -> ir.Type:
    shaped = ir.ShapedType(kind)
    return ir.MemRefType.get(list(shaped.shape), shaped.element_type)


def _kernel_type(kind: ir.Type) -> ir.Type:
    """Return the type of the rKernel argument that receives memrefs of type ``kind``.

    The argument's type has the same shape and strides as ``kind``, and the offset 0.
    """
    view = ir.MemRefType(kind)
    shape = list(view.shape)
    strides, offset = view.get_strides_and_offset()
    if Layout(0, tuple(shape), tuple(strides)).is_dense:
        return ir.MemRefType.get(shape, view.element_type)
    if offset == 0:
        return kind
    layout = ir.StridedLayoutAttr.get(0, list(strides))
    return ir.MemRefType.get(shape, view.element_type, layout=layout)


def _view(root: ir.Value, layout: Layout) -> ir.Value:
    if layout == Layout.row_major(shape_of(root)):
        return root
    strided = ir.StridedLayoutAttr.get(layout.offset, list(layout.strides))
    element = ir.MemRefType(root.type).element_type
    kind = ir.MemRefType.get(list(layout.sizes), element, layout=strided)
    return memref.ReinterpretCastOp(
        kind, root, [], [], [], [layout.offset], list(layout.sizes), list(layout.strides)
    ).result


def _bufferized(old: ir.OpView, name: str, signature: Sequence[ir.Type]) -> None:
    """Emit function ``name``: the rKernel ``old`` with memref arguments of types ``signature``."""
    if len(old.operation.regions[0].blocks):
        _bufferized_kernel(old, name, signature)
        return
    kind = ir.FunctionType.get([ir.IndexType.get(), *signature], [])
    with ir.InsertionPoint(old), old.operation.location:
        func.FuncOp(name, kind, visibility="private")


def _bufferized_kernel(old: ir.OpView, name: str, signature: Sequence[ir.Type]) -> None:
    """Emit a function ``name`` on memrefs with the body of the rKernel ``old`` on tensors.

    The new body converts each argument to a tensor, and materializes each result in its output
    argument, so that MLIR's bufferization can lower the body.
    """
    old_block = old.operation.regions[0].blocks[0]
    num_outputs = len(list(old_block.operations)[-1].operation.operands)
    kind = ir.FunctionType.get([ir.IndexType.get(), *signature], [])
    with ir.InsertionPoint(old), ir.Location.unknown():
        function = func.FuncOp(name, kind, visibility="private")
        block = function.add_entry_block()
        ip = ir.InsertionPoint(block)
        mapping: dict[ir.Value, ir.Value] = {old_block.arguments[0]: block.arguments[0]}
        pairs = list(zip(list(old_block.arguments)[1:], list(block.arguments)[1:], strict=True))
        with ip:
            for position, (old_argument, new_argument) in enumerate(pairs):
                mapping[old_argument] = bufferization.ToTensorOp(
                    old_argument.type,
                    new_argument,
                    restrict=True,
                    writable=position >= len(pairs) - num_outputs,
                ).result
        operations = list(old_block.operations)
        _clone_computation(operations, mapping, ip)
        with ip:
            destinations = [new for _, new in pairs[len(pairs) - num_outputs :]]
            returned = list(operations[-1].operation.operands)
            for value, destination in zip(returned, destinations, strict=True):
                bufferization.MaterializeInDestinationOp(
                    None, mapping[value], destination, restrict=True, writable=True
                )
            func.ReturnOp([])


def _clone_computation(
    operations: Sequence[ir.OpView], mapping: ValueMap, ip: ir.InsertionPoint
) -> None:
    """Clone the operations of an rKernel's body, except its last operation, the terminator.

    Each fill is cloned before every operation that uses it, so that bufferization need not copy the
    fill's result. ``mapping`` maps old to new values and is extended.
    """
    fills = {op.operation for op in operations if is_generic(op) and is_free(Structured(op))}
    for op in operations:
        # A region captures fills too: a loop, or a body that extracts elements.
        for value in (*op.operation.operands, *captured_values(op)):
            if not isinstance(value.owner, ir.Block) and value.owner.operation in fills:
                clone_into(value.owner.opview, mapping, ip)
        if op.operation not in fills and op != operations[-1]:
            clone_into(op, mapping, ip)
