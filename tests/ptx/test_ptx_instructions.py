"""Tests that the interpreter executes single PTX instructions correctly.

The references are NumPy and exact arithmetic.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_interpreter.faults import PtxFault
from ptx_kernels import execute, per_thread

RNG = np.random.default_rng(11)
THREADS = 64


def words(dtype: Any = np.uint32) -> Any:
    """Return a random integer for each thread, including the least and the largest of the type."""
    info = np.iinfo(dtype)
    found = RNG.integers(info.min, info.max, THREADS, dtype, endpoint=True)
    found[:4] = info.min, info.max, 0, 1
    return found


def floats(scale: float = 1.0) -> Any:
    """Return a random float for each thread, multiplied by ``scale``."""
    return (scale * RNG.standard_normal(THREADS)).astype(np.float32)


SPECIAL = np.resize(
    np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3e9, -3e9], np.float32), THREADS
)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("u32", np.uint32), ("s32", np.int32), ("u64", np.uint64), ("s64", np.int64)],
)
def test_products_of_integers(kind: str, dtype: Any) -> None:
    a, b, c = words(dtype), words(dtype), words(dtype)
    exact = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    bits = 8 * a.itemsize
    modulus = 1 << bits

    def unsigned(values: list[int], modulus: int = modulus) -> list[int]:
        return [value % modulus for value in values]

    whole = np.dtype(f"u{a.itemsize}")
    low = per_thread(f"mul.lo.{kind} $to, $0, $1;", a, b, out=whole)
    assert low.tolist() == unsigned(exact)
    high = per_thread(f"mul.hi.{kind} $to, $0, $1;", a, b, out=whole)
    assert high.tolist() == unsigned([value >> bits for value in exact])
    both = per_thread(f"mad.lo.{kind} $to, $0, $1, $2;", a, b, c, out=whole)
    assert both.tolist() == unsigned([p + int(x) for p, x in zip(exact, c, strict=True)])
    if bits == 32:
        wide = per_thread(f"mul.wide.{kind} $to, $0, $1;", a, b, out=np.uint64)
        assert wide.tolist() == unsigned(exact, 1 << 64)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("u32", np.uint32), ("s32", np.int32), ("s64", np.int64)]
)
def test_quotients(kind: str, dtype: Any) -> None:
    """Quotients are rounded towards zero; a remainder has the sign of the dividend."""
    a, b = words(dtype), words(dtype) >> dtype(7)
    b[(b == 0) | (b == dtype(-1) if np.iinfo(dtype).min else b == 0)] = 3
    quotients = [abs(int(x)) // abs(int(y)) for x, y in zip(a, b, strict=True)]
    signs = [-1 if (x < 0) != (y < 0) else 1 for x, y in zip(a, b, strict=True)]
    expected = [s * q for s, q in zip(signs, quotients, strict=True)]
    found = per_thread(f"div.{kind} $to, $0, $1;", a, b, out=dtype)
    assert found.tolist() == expected
    rest = per_thread(f"rem.{kind} $to, $0, $1;", a, b, out=dtype)
    assert rest.tolist() == [int(x) - q * int(y) for x, q, y in zip(a, expected, b, strict=True)]


def test_shifts_beyond_the_word() -> None:
    a = words(np.int32)
    amount = np.resize(np.array([0, 1, 5, 31, 32, 33, 200], np.uint32), THREADS)
    pairs = [(int(x), int(n)) for x, n in zip(a, amount, strict=True)]
    found = per_thread("shr.s32 $to, $0, $1;", a, amount, out=np.int32)
    assert found.tolist() == [x >> n for x, n in pairs]
    found = per_thread("shr.u32 $to, $0, $1;", a, amount)
    assert found.tolist() == [x % (1 << 32) >> n for x, n in pairs]
    found = per_thread("shl.b32 $to, $0, $1;", a, amount)
    assert found.tolist() == [(x << n) % (1 << 32) for x, n in pairs]


def test_bit_fields() -> None:
    a, b = words(), words()
    begin = RNG.integers(0, 40, THREADS, np.uint32)
    length = RNG.integers(0, 40, THREADS, np.uint32)
    fields = list(zip(a.tolist(), b.tolist(), begin.tolist(), length.tolist(), strict=True))
    found = per_thread("bfe.u32 $to, $0, $1, $2;", a, begin, length)
    assert found.tolist() == [x >> p & (1 << n) - 1 for x, _, p, n in fields]
    found = per_thread("bfe.s32 $to, $0, $1, $2;", a, begin, length, out=np.int32)
    assert found.tolist() == [signed_field(x, p, n) for x, _, p, n in fields]
    found = per_thread("bfi.b32 $to, $0, $1, $2, $3;", a, b, begin, length)
    masks = [((1 << n) - 1) << p for _, _, p, n in fields]
    both = zip(fields, masks, strict=True)
    assert found.tolist() == [(x << p & m | y & ~m) % (1 << 32) for (x, y, p, _), m in both]


def signed_field(word: int, begin: int, length: int) -> int:
    """Return the signed bit field of ``word``, bit by bit as the ISA describes ``bfe``."""
    if not length:
        return 0
    sign = word >> min(begin + length - 1, 31) & 1
    bits = [word >> begin + i & 1 if i < length and begin + i < 32 else sign for i in range(32)]
    value = sum(bit << place for place, bit in enumerate(bits))
    return value - (1 << 32) * bits[31]


def test_permuted_bytes() -> None:
    a, b, selector = words(), words(), words() & np.uint32(0x7777)
    source = np.concatenate([a[:, None].view(np.uint8), b[:, None].view(np.uint8)], 1)
    choice = selector[:, None] >> np.array([0, 4, 8, 12], np.uint32) & 7
    expected = np.take_along_axis(source, choice.astype(np.int64), 1).copy().view(np.uint32)
    found = per_thread("prmt.b32 $to, $0, $1, $2;", a, b, selector)
    np.testing.assert_array_equal(found, expected[:, 0])


def test_logic_of_three() -> None:
    a, b, c = words(), words(), words()
    found = per_thread("lop3.b32 $to, $0, $1, $2, 0xE8;", a, b, c)
    np.testing.assert_array_equal(found, a & b | b & c | a & c)
    found = per_thread("shf.l.wrap.b32 $to, $0, $1, 5;", a, b)
    np.testing.assert_array_equal(found, b << np.uint32(5) | a >> np.uint32(27))


def nearest_float(value: Fraction) -> np.float32:
    """Return the float that is nearest to a fraction, ties to even."""
    near = np.float32(float(value))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(
        around,
        key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.uint32)) & 1),
    )


def test_fused_products_are_rounded_once() -> None:
    """Fused multiply-adds are rounded once.

    That holds even if the nearest double of the exact sum is a midpoint between two floats.
    """
    a, b, c = floats(), floats(), floats(0.1)
    # 1 + 2^-24 is such a midpoint; the product's last bit lies far after what a double holds.
    a[:3], b[:3], c[:3] = 2.0**-30, (2.0**-30, -(2.0**-30), 2.0**-30), 1 + 2.0**-23
    a[3:5], b[3:5], c[3:5] = 1 + 2.0**-12, (1 + 2.0**-12, 1 - 2.0**-12), 2.0**-60
    expected = [
        nearest_float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    found = per_thread("fma.rn.f32 $to, $0, $1, $2;", a, b, c, out=np.float32)
    assert found.tolist() == [float(x) for x in expected]


def test_arithmetic_of_floats() -> None:
    a, b = floats(), floats()
    for name, expected in {"add.rn": a + b, "sub": a - b, "mul": a * b, "div.rn": a / b}.items():
        found = per_thread(f"{name}.f32 $to, $0, $1;", a, b, out=np.float32)
        np.testing.assert_array_equal(found, expected)
    found = per_thread("sqrt.rn.f32 $to, $0;", np.abs(a), out=np.float32)
    np.testing.assert_array_equal(found, np.sqrt(np.abs(a)))


def test_least_and_greatest_with_nan() -> None:
    a, b = SPECIAL, np.roll(SPECIAL, 5)
    number = per_thread("min.f32 $to, $0, $1;", a, b, out=np.float32)
    np.testing.assert_array_equal(number, np.fmin(a, b))
    nan = per_thread("max.NaN.f32 $to, $0, $1;", a, b, out=np.float32)
    np.testing.assert_array_equal(nan, np.maximum(a, b))
    zeros = np.zeros(THREADS, np.float32)
    found = per_thread("max.f32 $to, $0, $1;", -zeros, zeros, out=np.float32)
    assert not np.signbit(found).any()


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "ge", "equ", "neu", "ltu", "geu", "num", "nan"])
def test_comparisons_with_nan(name: str) -> None:
    """A comparison with NaN is true only if its name is "nan" or ends in ``u``."""
    a, b = SPECIAL, np.roll(SPECIAL, 2)
    unordered = np.isnan(a) | np.isnan(b)
    plain: dict[str, Any] = {"eq": a == b, "ne": a != b, "lt": a < b, "ge": a >= b}
    if name in ("num", "nan"):
        expected = unordered == (name == "nan")
    elif name.endswith("u"):
        expected = plain[name[:-1]] | unordered
    else:
        expected = plain[name] & ~unordered
    body = f"setp.{name}.f32 %p1, $0, $1;\nselp.b32 $to, 1, 0, %p1;"
    np.testing.assert_array_equal(per_thread(body, a, b), expected)


def test_conversions_to_integers() -> None:
    """Floats out of range become the nearest integer, NaN becomes zero, ties go to even numbers."""
    a = SPECIAL.copy()
    expected = [0, 0, 1, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]
    found = per_thread("cvt.rzi.s32.f32 $to, $0;", a, out=np.int32)
    assert found[:9].tolist() == expected
    found = per_thread("cvt.rni.u32.f32 $to, $0;", a)
    assert found[:9].tolist() == [0, 0, 2, 0, 2**32 - 1, 0, 0, 3_000_000_000, 0]


def test_conversions_between_integers() -> None:
    a = words(np.int32)
    wide = per_thread("cvt.s64.s32 $to, $0;", a, out=np.int64)
    np.testing.assert_array_equal(wide, a)
    wide = per_thread("cvt.u64.u32 $to, $0;", a, out=np.uint64)
    np.testing.assert_array_equal(wide, a.view(np.uint32))
    narrow = per_thread("cvt.s16.s32 $to, $0;", a, out=np.int16)
    np.testing.assert_array_equal(narrow, a.astype(np.int16))
    byte = per_thread("cvt.s32.s8 $to, $0;", a, out=np.int32)
    np.testing.assert_array_equal(byte, a.astype(np.int8))


def test_conversions_to_narrow_floats() -> None:
    a, b = floats(100), floats()
    half = per_thread("cvt.rn.f16.f32 $to, $0;", a, out=np.float16)
    np.testing.assert_array_equal(half, a.astype(np.float16))
    pair = per_thread("cvt.rn.bf16x2.f32 $to, $0, $1;", a, b)
    high, low = (x.astype(ml_dtypes.bfloat16).view(np.uint16) for x in (a, b))
    np.testing.assert_array_equal(pair, high.astype(np.uint32) << 16 | low)
    odd = np.full(THREADS, 0x3F801000, np.uint32)  # between two numbers of tf32
    assert per_thread("cvt.rna.tf32.f32 $to, $0;", odd)[0] == 0x3F802000


@pytest.mark.parametrize("mode", ["bfly", "down", "up", "idx"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(mode: str, width: int) -> None:
    """A shuffle exchanges values within segments: groups of ``width`` adjacent lanes of a warp.

    A lane whose partner is outside of its segment keeps its value.
    """
    a = words()
    clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
    found = per_thread(f"shfl.sync.{mode}.b32 $to, $0, 3, {clamp}, -1;", a)
    for thread in range(THREADS):
        lane, base = thread % width, thread - thread % width
        other = {"bfly": lane ^ 3, "down": lane + 3, "up": lane - 3, "idx": 3}[mode]
        assert found[thread] == a[base + other if 0 <= other < width else thread]


def test_votes() -> None:
    a = words() & np.uint32(1)
    body = "setp.ne.u32 %p1, $0, 0;\nvote.sync.ballot.b32 $to, %p1, -1;"
    found = per_thread(body, a)
    expected = [sum(int(bit) << lane for lane, bit in enumerate(warp)) for warp in a.reshape(2, 32)]
    assert found.reshape(2, 32)[:, 7].tolist() == expected


def test_vectors_and_pieces() -> None:
    """Words that are stored to shared memory in pairs are loaded as a vector of four words."""
    x = np.concatenate([words(), words(), words(), words()])
    body = """
      mul.wide.u32 %d10, %r0, 16;
      add.s64 %d11, %d0, %d10;
      ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d11];
      cvt.u32.u64 %r9, %d10;
      mov.b32 %r8, shared;
      add.s32 %r9, %r9, %r8;
      mov.b64 %d12, {%r2, %r1};
      st.shared.v2.b32 [%r9+8], {%r3, %r4};
      st.shared.b64 [%r9], %d12;
      ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r9];
      st.global.v4.b32 [%d11], {%r1, %r2, %r3, %r4};"""
    (found,) = execute(body, [x])
    np.testing.assert_array_equal(found.reshape(-1, 4), x.reshape(-1, 4)[:, [1, 0, 2, 3]])


def test_branches_meet_again() -> None:
    """Threads with loops of different lengths, and with a branch table, join again."""
    body = """
      mov.b32 %r1, 0;
      mov.b32 %r2, %r0;
    $again:
      add.s32 %r1, %r1, %r2;
      sub.s32 %r2, %r2, 1;
      setp.gt.s32 %p1, %r2, 0;
      @%p1 bra $again;
      and.b32 %r3, %r0, 1;
    $table: .branchtargets
        $even,
        $odd;
      brx.idx %r3, $table;
    $even:
      neg.s32 %r1, %r1;
      bra.uni $end;
    $odd:
      @!%p1 add.s32 %r1, %r1, 1;
    $end:
      add.s64 %d10, %d0, %d90;
      st.global.b32 [%d10], %r1;"""
    (found,) = execute(body, [np.zeros(THREADS, np.int32)])
    sums = [n * (n + 1) // 2 for n in range(THREADS)]
    assert found.tolist() == [s + 1 if n % 2 else -s for n, s in enumerate(sums)]


def test_atomic_sums() -> None:
    body = "atom.global.add.u32 %r1, [%d0], %r0;\nred.global.max.u32 [%d0+4], %r1;"
    (found,) = execute(body, [np.zeros(2, np.uint32)], blocks=2)
    assert found[0] == THREADS * (THREADS - 1)
    assert found[1] == THREADS * (THREADS - 1) - THREADS + 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("addc.u32 %r1, %r0, 1;", "unknown instruction"),
        ("add.sat.s32 %r1, %r0, 1;", "expected no '.sat'"),
        ("add.rz.f32 %r1, %r0, %r0;", "expected no '.rz'"),
        ("add.s32 %r1, %d0, 1;", "expected a register of 32 bits, found '%d0'"),
        ("add.s32 %r1, missing, 1;", "found 'missing'"),
        ("trap;", "unknown instruction"),
        ("div.u32 %r1, %r0, 0;", "division by zero"),
        ("bra $nowhere;", "expected a label, found '$nowhere'"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    """Invalid instructions are refused with their line in the message."""
    with pytest.raises(PtxFault) as raised:
        execute(body, [np.zeros(1, np.uint32)])
    assert str(raised.value).startswith(f"line 16: '{body[:-1]}'")
    assert message in str(raised.value)
