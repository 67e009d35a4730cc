"""Defines, in LLVM IR, runtime functions that LLVM calls for instructions that a processor lacks.

The functions are part of a compiler's runtime library. A process that only loads rKernels does not
have this library.
"""

from __future__ import annotations

_TO_BF16 = """
; Round to nearest, ties to even. The result is in the low half of a vector register's first word,
; where the calling conventions of x86-64 and AArch64 have a bfloat: LLVM would compile a function
; that returns a bfloat to a call of itself.
define weak hidden <8 x i16> @__truncsfbf2(float %value) {
  %bits = bitcast float %value to i32
  %upper = lshr i32 %bits, 16
  %odd = and i32 %upper, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %upper, 64
  %is_nan = fcmp uno float %value, %value
  %result = select i1 %is_nan, i32 %quiet, i32 %rounded
  %narrow = trunc i32 %result to i16
  %vector = insertelement <8 x i16> zeroinitializer, i16 %narrow, i64 0
  ret <8 x i16> %vector
}
"""


def with_runtime_calls(ir_text: str, triple: str) -> str:
    """Return LLVM IR text with definitions of the runtime functions that its code may call.

    ``triple`` is LLVM's triple of the target. Unless the processor has an instruction that converts
    f32 to bf16, LLVM calls a runtime function even to move a bf16 between registers.
    """
    is_processor = triple.startswith(("x86_64", "aarch64", "arm64"))
    return ir_text + _TO_BF16 if is_processor and "bfloat" in ir_text else ir_text
