"""Defines Python classes that emit i64 values (words), records and control flow.

The emulator's runtime is written with these classes. Their Python operators emit ``arith``, ``scf``
and ``llvm`` operations at the current insertion point: ``a + b`` of two words emits ``arith.addi``.
Addresses are words as well.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rammer_mlir.bindings import arith, func, ir, llvm, scf

Exchange = Callable[[ir.Value, ir.Value], ir.Value]
"""A function that emits the read of another lane's value, and returns the value read.

It is called with the value that this lane offers and the index of the source lane, an i64.
"""


def i64() -> ir.IntegerType:
    """Return the type i64, which all words have."""
    return ir.IntegerType.get_signless(64)


def constant_word(number: int) -> ir.Value:
    """Emit a constant i64 and return it."""
    return arith.constant(i64(), number)


def _pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")


class Truth:
    """An i1 value of the emitted code; ``&`` and ``|`` of two truths emit operations."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def __and__(self, other: Truth) -> Truth:
        return Truth(arith.andi(self.value, other.value))

    def __or__(self, other: Truth) -> Truth:
        return Truth(arith.ori(self.value, other.value))

    def choose(self, when_true: Word | int, when_false: Word | int) -> Word:
        """Emit a select: ``when_true`` if the truth value is 1, else ``when_false``."""
        return Word(arith.select(self.value, word(when_true).value, word(when_false).value))


class Word:
    """An i64 of the emitted code, a number or an address; operators on words emit operations."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def __add__(self, other: Word | int) -> Word:
        return Word(arith.addi(self.value, word(other).value))

    def __sub__(self, other: Word | int) -> Word:
        return Word(arith.subi(self.value, word(other).value))

    def __mul__(self, other: Word | int) -> Word:
        return Word(arith.muli(self.value, word(other).value))

    def __mod__(self, other: Word | int) -> Word:
        return Word(arith.remui(self.value, word(other).value))

    def __and__(self, other: Word | int) -> Word:
        return Word(arith.andi(self.value, word(other).value))

    def __or__(self, other: Word | int) -> Word:
        return Word(arith.ori(self.value, word(other).value))

    def __xor__(self, other: Word | int) -> Word:
        return Word(arith.xori(self.value, word(other).value))

    def __lshift__(self, places: Word | int) -> Word:
        return Word(arith.shli(self.value, word(places).value))

    def __rshift__(self, places: Word | int) -> Word:
        """Emit a logical right shift by ``places`` bits, filled with zeros."""
        return Word(arith.shrui(self.value, word(places).value))

    def _compare(self, predicate: str, other: Word | int) -> Truth:
        return Truth(
            arith.cmpi(getattr(arith.CmpIPredicate, predicate), self.value, word(other).value)
        )

    def __lt__(self, other: Word | int) -> Truth:
        """Emit an unsigned "less than"; all comparisons of words are unsigned."""
        return self._compare("ult", other)

    def __le__(self, other: Word | int) -> Truth:
        return self._compare("ule", other)

    def __ge__(self, other: Word | int) -> Truth:
        return self._compare("uge", other)

    def __gt__(self, other: Word | int) -> Truth:
        return self._compare("ugt", other)

    def equals(self, other: Word | int) -> Truth:
        """Emit a comparison for equality."""
        return self._compare("eq", other)

    def differs(self, other: Word | int) -> Truth:
        """Emit a comparison for inequality."""
        return self._compare("ne", other)


def word(value: Word | int) -> Word:
    """Return ``value`` if it is a word; emit and return a constant word if it is an integer."""
    if isinstance(value, Word):
        return value
    return Word(arith.constant(i64(), value))


def load(address: Word) -> Word:
    """Emit a load of the i64 at an address."""
    return Word(llvm.load(i64(), llvm.inttoptr(_pointer(), address.value)))


def store(address: Word, value: Word | int) -> None:
    """Emit a store of an i64 at an address."""
    llvm.store(word(value).value, llvm.inttoptr(_pointer(), address.value))


def copy_bytes(to: Word, source: Word, count: Word | int) -> None:
    """Emit a loop that copies ``count`` bytes from address ``source`` to address ``to``."""
    byte = ir.IntegerType.get_signless(8)
    with each(0, count) as place:
        value = llvm.load(byte, llvm.inttoptr(_pointer(), (source + place).value))
        llvm.store(value, llvm.inttoptr(_pointer(), (to + place).value))


class Record:
    """Consecutive i64 words at an address.

    Reading ``record[n]`` emits a load of word n; assigning to ``record[n]`` emits a store.
    """

    def __init__(self, address: Word) -> None:
        self.address = address

    def at(self, place: Word | int) -> Word:
        """Emit and return the address of the word with index ``place``."""
        offset = place * 8
        return self.address + offset

    def __getitem__(self, place: Word | int) -> Word:
        return load(self.at(place))

    def __setitem__(self, place: Word | int, value: Word | int) -> None:
        store(self.at(place), value)


def _entry_block() -> ir.Block:
    """Return the entry block of the function that contains the insertion point."""
    owner = ir.InsertionPoint.current.block.owner.operation
    while owner.name != "func.func":
        assert owner.parent is not None
        owner = owner.parent.operation
    return owner.regions[0].blocks[0]


class Variable:
    """A mutable word on the stack of the emitted function; LLVM promotes it to a register."""

    def __init__(self, value: Word | int) -> None:
        # LLVM's mem2reg only promotes allocations in the entry block.
        with ir.InsertionPoint.at_block_begin(_entry_block()):
            self._address = llvm.alloca(_pointer(), word(1).value, ir.TypeAttr.get(i64()))
        self.set(value)

    def get(self) -> Word:
        """Emit a load of the variable's value, and return this value."""
        return Word(llvm.load(i64(), self._address))

    def set(self, value: Word | int) -> None:
        """Emit a store of ``value`` to the variable."""
        llvm.store(word(value).value, self._address)


@contextmanager
def when(condition: Truth) -> Generator[None]:
    """Emit an ``if`` around the operations that the ``with`` block emits."""
    branch = scf.IfOp(condition.value)
    with ir.InsertionPoint(branch.then_block):
        yield
        scf.YieldOp([])


@contextmanager
def each(begin: Word | int, end: Word | int) -> Generator[Word]:
    """Emit a loop whose body the ``with`` block emits.

    Yield the induction variable, which runs from ``begin`` to ``end - 1``.
    """
    loop = scf.ForOp(word(begin).value, word(end).value, word(1).value)
    with ir.InsertionPoint(loop.body):
        yield Word(loop.induction_variable)
        scf.YieldOp([])


@contextmanager
def while_(condition: Callable[[], Truth]) -> Generator[None]:
    """Emit a loop that runs while a condition holds; the ``with`` block emits the loop's body.

    ``condition`` is called once. It emits the code that evaluates the condition before each
    iteration.
    """
    loop = scf.WhileOp([], [])
    before, after = loop.before.blocks.append(), loop.after.blocks.append()
    with ir.InsertionPoint(before):
        scf.ConditionOp(condition().value, [])
    with ir.InsertionPoint(after):
        yield
        scf.YieldOp([])


def call(name: str, *arguments: Word | int) -> Word:
    """Emit a call of the function ``name`` with i64 arguments, and return its i64 result."""
    values = [word(argument).value for argument in arguments]
    return Word(func.CallOp([i64()], name, values).results[0])


def perform(name: str, *arguments: Word | int) -> None:
    """Emit a call of the function ``name``, which takes i64 arguments and has no result."""
    func.CallOp([], name, [word(argument).value for argument in arguments])


def declare(name: str, num_arguments: int) -> None:
    """Emit a declaration of the function ``name`` (``num_arguments`` i64 arguments, no result)."""
    kind = ir.FunctionType.get([i64()] * num_arguments, [])
    func.FuncOp(name, kind, visibility="private")


def define(
    name: str, num_arguments: int, body: Callable[..., Word | None], *, returns: bool = False
) -> None:
    """Emit the definition of the function ``name``, which takes ``num_arguments`` i64 arguments.

    ``body`` is called once with the arguments, as words, and emits the function's code. It returns
    the function's i64 result if ``returns``, else None.
    """
    results = [i64()] if returns else []
    function = func.FuncOp(name, ir.FunctionType.get([i64()] * num_arguments, results))
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        result = body(*[Word(argument) for argument in block.arguments])
        func.ReturnOp([] if result is None else [result.value])


def global_word(name: str) -> None:
    """Emit the global variable ``name``, an i64 that is initially 0."""
    linkage = ir.Attribute.parse("#llvm.linkage<internal>")
    llvm.GlobalOp(i64(), name, linkage, value=ir.IntegerAttr.get(i64(), 0))


def address_of(name: str) -> Word:
    """Emit and return the address of the global variable or the LLVM function ``name``."""
    symbol = llvm.mlir_addressof(_pointer(), ir.FlatSymbolRefAttr.get(name))
    return Word(llvm.ptrtoint(i64(), symbol))
