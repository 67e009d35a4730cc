"""Tests that the interpreter reports each fault that is put into PTX."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from ptx_interpreter.faults import PtxFault
from ptx_kernels import execute
from ptx_models import Interpreted

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import build, random_feeds

MODEL = build("attention", scale="small")
FEEDS = random_feeds(MODEL, 3)

MIRROR = """
  mov.b32 %r8, shared;
  mad.lo.s32 %r9, %r0, 4, %r8;
  add.s64 %d10, %d0, %d90;
  ld.global.b32 %r1, [%d10];
  st.shared.b32 [%r9], %r1;
  bar.sync 0;
  sub.s32 %r2, 63, %r0;
  mad.lo.s32 %r3, %r2, 4, %r8;
  ld.shared.b32 %r4, [%r3];
  add.s64 %d11, %d1, %d90;
  st.global.b32 [%d11], %r4;"""
"""64 threads copy 64 words in reverse order, through shared memory."""

COPY = """
  mov.b32 %r8, shared;
  mad.lo.s32 %r9, %r0, 16, %r8;
  mul.wide.u32 %d12, %r0, 16;
  add.s64 %d10, %d0, %d12;
  cp.async.cg.shared.global [%r9], [%d10], 16, 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  mad.lo.s32 %r3, %r0, -4, %r8;
  ld.shared.b32 %r4, [%r3+252];
  add.s64 %d11, %d1, %d90;
  st.global.b32 [%d11], %r4;"""
"""64 threads copy 16 bytes each asynchronously; they store the first 64 words in reverse order."""

HAND_OVER = """
  mov.u32 %r10, %ctaid.x;
  setp.ne.u32 %p1, %r10, 0;
  setp.ne.u32 %p2, %r0, 0;
  add.s64 %d10, %d0, %d90;
  @%p1 bra $second;
  st.global.b32 [%d10+256], %r0;
  bar.sync 0;  // all have written
  @%p2 bra $end;
  st.release.gpu.global.b64 [%d0], 1;
  bra.uni $end;
$second:
  @%p2 bra $on;
$look:
  nanosleep.u32 64;
  ld.acquire.gpu.global.b64 %d13, [%d0];
  setp.lt.s64 %p3, %d13, 1;
  @%p3 bra $look;
$on:
  bar.sync 0;  // all know
  ld.global.b32 %r4, [%d10+256];
  add.s64 %d11, %d1, %d90;
  st.global.b32 [%d11], %r4;
$end:"""
"""Each thread of the first block writes a word, which a thread of the second block reads."""

X = np.arange(256, dtype=np.uint32) * 3


def run(body: str, *, shared: int = 1024) -> Any:
    """Execute the PTX instructions ``body`` with 64 threads, on an input and an output buffer.

    Return the 64 words of the output; they count as undefined until they are written.
    """
    return execute(body, [X, np.zeros(64, np.uint32)], shared=shared, unwritten=[1])[1]


@pytest.mark.parametrize("body", [MIRROR, COPY])
def test_without_faults(body: str) -> None:
    np.testing.assert_array_equal(run(body), X[63::-1])


@pytest.mark.parametrize(
    ("body", "old", "new", "message"),
    [
        (MIRROR, "st.global.b32 [%d11]", "st.global.b32 [%d11+4]",
         "thread 63: outside all buffers: global memory, byte 256 of 'argument 1'"),
        (MIRROR, "ld.global.b32 %r1, [%d10]", "ld.global.b32 %r1, [%d10+-4]",
         "thread 0: outside all buffers: global memory"),
        (MIRROR, "[%d10];", "[%d10+2];", "thread 0: misaligned: global memory, byte 2"),
        (MIRROR, "add.s64 %d11, %d1, %d90", "cvt.u64.u32 %d11, %d1", "outside all buffers"),
        (MIRROR, "[%d11], %r4", "[%d90], %r4", "outside all buffers"),
        (MIRROR, "bar.sync 0;", "", "read in a data race: shared memory"),
        (MIRROR, "sub.s32 %r2, 63", "sub.s32 %r2, 64", "thread 0: read, but never written: shared"),
        (MIRROR, "st.shared.b32 [%r9]", "st.shared.b32 [%r8]", "written in a data race: shared"),
        (MIRROR, "bar.sync 0;", "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra $on;\nbar.sync 0;\n$on:",
         "read in a data race"),
        (MIRROR, "bar.sync 0;", "setp.lt.u32 %p1, %r0, 32;\n@%p1 ret;\nbar.sync 0;",
         "not met by all threads: 32 of 64 threads wait here, 32 have exited"),
        (MIRROR, "bar.sync 0;", "setp.lt.u32 %p1, %r0, 8;\n@%p1 ret;\nshfl.sync.idx.b32 %r5, %r1, "
         "0, 31, -1;\nbar.sync 0;", "not met by all threads"),
        (COPY, "cp.async.wait_group 0;", "", "read, but never written: shared memory"),
        (COPY, "cp.async.wait_group 0;", "cp.async.wait_group 1;", "read, but never written"),
        (COPY, "cp.async.commit_group;", "", "read, but never written"),
        (COPY, "bar.sync 0;", "", "read in a data race: shared memory"),
        (COPY, "cp.async.wait_group 0;", "cp.async.wait_group 0;\ncp.async.ca.shared.global "
         "[%r9], [%d10], 4, 4;\ncp.async.commit_group;\n", "read, but never written"),
        (COPY, "[%r9], [%d10]", "[%r9], [%d10+4]", "misaligned: global memory"),
        (COPY, "[%r9], [%d10]", "[%r9], [%d10+16]", "thread 63: outside all buffers: global"),
        (COPY, "st.global.b32", "cp.async.ca.shared.global [%r9], [%d10], 4;\nst.global.b32",
         "nothing waits for the copy"),
    ],
)  # fmt: skip
def test_faults(body: str, old: str, new: str, message: str) -> None:
    assert old in body
    with pytest.raises(PtxFault, match=re.escape(message)):
        run(body.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("bar.sync 0;  // all have written", ""),
        ("bar.sync 0;  // all know", ""),
        ("st.release.gpu", "st.relaxed.gpu"),
        ("ld.acquire.gpu", "ld.relaxed.gpu"),
    ],
)
def test_order_between_blocks(old: str, new: str) -> None:
    """A hand-over between blocks needs a barrier, a release, an acquire and a barrier.

    If one of the four is missing, there is a data race.
    """
    steps = np.zeros(256, np.uint32)

    def hand_over() -> Any:
        body = HAND_OVER.replace(old, new) if old else HAND_OVER
        return execute(body, [steps, np.zeros(64, np.uint32)], blocks=2, unwritten=[1])[1]

    if old:
        with pytest.raises(PtxFault, match="read in a data race: global memory"):
            hand_over()
    else:
        np.testing.assert_array_equal(hand_over(), np.arange(64))


def test_what_nobody_reads_may_be_unwritten() -> None:
    """A load of a vector may include an unwritten word if no instruction uses it.

    Compilers load a whole vector for three elements and a row's padding.
    """
    body = """
      mov.b32 %r8, shared;
      mad.lo.s32 %r9, %r0, 16, %r8;
      st.shared.v2.b32 [%r9], {%r0, %r0};
      ld.shared.v4.b32 {%r1, %r2, UNUSED, %r4}, [%r9];
      add.s64 %d11, %d1, %d90;
      add.s32 %r5, %r1, %r2;
      st.global.b32 [%d11], %r5;"""
    np.testing.assert_array_equal(run(body.replace("UNUSED", "%r3")), 2 * np.arange(64))
    with pytest.raises(PtxFault, match="read, but never written"):
        run(body.replace("UNUSED", "%r5"))


def test_copies_end_with_zeros() -> None:
    """An asynchronous copy that reads fewer bytes than it writes fills the rest with zeros.

    It reads no byte outside of the source.
    """
    body = COPY.replace("[%d10], 16, 16", "[%d10], 16, %r7")
    lines = "setp.lt.u32 %p1, %r0, 8;\nselp.b32 %r7, 16, 0, %p1;\ncp.async.cg"
    found = run(body.replace("cp.async.cg", lines))
    np.testing.assert_array_equal(found, np.where(np.arange(64) < 32, 0, X[63::-1]))


@cache
def compiled() -> Interpreted:
    """Return the model as PTX; it is compiled once for all tests."""
    return Interpreted(MODEL, "nvvm:sm_80", 3)


def outcome(change: Callable[[str], str]) -> str:
    """Run the model with changed PTX; return the message of a fault, or how the outputs compare.

    "right" and "wrong" stand for outputs that agree or disagree with ONNX Runtime.
    """
    assert change(compiled().ptx) != compiled().ptx
    try:
        outputs = compiled().executable(change).run(FEEDS)
    except PtxFault as fault:
        return str(fault)
    values = {name: np.asarray(array) for name, array in outputs.items()}
    return "right" if compare(OnnxRuntime(MODEL).run(FEEDS), values).ok else "wrong"


def test_programs_that_publish_nothing() -> None:
    def change(text: str) -> str:
        return re.sub(r"st\.release\.gpu\.global\.b64[^;]*;", "", text)

    assert re.search(r"hang: blocks [\d, ]+ wait, and none goes on", outcome(change))


def test_programs_that_wait_for_nothing() -> None:
    """A program whose barriers never wait reads memory that was not written yet."""

    def never_wait(text: str) -> str:
        return re.sub(r"setp\.ge\.s64 \t(%p\d+), %rd\d+, %rd\d+", r"setp.ge.s64 \t\1, 0, 0", text)

    assert "read, but never written: global memory" in outcome(never_wait)


@pytest.mark.parametrize(
    ("order", "plain"),
    [
        (r"st\.release\.gpu\.global", "st.global"),
        (r"ld\.acquire\.gpu\.global", "ld.global"),
        (r"st\.release\.gpu\.global", "st.relaxed.gpu.global"),
    ],
)
def test_programs_without_an_order_of_memory(order: str, plain: str) -> None:
    """A program without acquire or release has a data race.

    Its results may still be right, since the interpreter's blocks take turns.
    """
    found = outcome(lambda text: re.sub(order, plain, text))
    assert re.search(r"block \d, thread \d+: (read|written) in a data race: global memory", found)


@pytest.mark.parametrize("number", range(6))
def test_programs_without_a_barrier_of_the_block(number: int) -> None:
    """Removing any barrier inside an rKernel causes a data race in shared memory."""

    def change(text: str) -> str:
        places = [
            found.start()
            for found in re.finditer(r"bar\.sync \t0;", text)
            if "st.shared" in text[found.start() - 400 : found.start()]
        ]
        place = places[number % len(places)]
        return text[:place] + text[place:].replace("bar.sync", "// bar.sync", 1)

    assert "data race: shared memory" in outcome(change)


@pytest.mark.parametrize("seed", range(12))
def test_programs_with_another_register(seed: int) -> None:
    """A program in which a store writes another register faults, or gives wrong results."""
    generator = np.random.default_rng(seed)

    def change(text: str) -> str:
        found = re.finditer(r"st\.(?:global|shared)\.b32 \t\[([^\]]*)\], (%r\d+);", text)
        # A softmax has the same results whatever it subtracts in place of the maximum.
        stores = [one for one in found if not re.search(rf"max[\w.]* \t{one[2]},", text)]
        store = stores[int(generator.integers(len(stores)))]
        return text[: store.start(2)] + "%r1" + text[store.end(2) :]

    assert outcome(change) != "right"
