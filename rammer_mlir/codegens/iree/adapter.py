"""Emits LLVM IR functions that call IREE's dispatch function with an external rKernel's arguments.

The LLVM types are those of version 6 of IREE's interface of executable libraries; a library rejects
any other version. The environment that IREE's functions receive (constants, imports, processor
data) is all zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

INTERFACE_VERSION = 6

REFUSED = 6
"""Status that the adapter returns if the library has another version or an unsupported function.

A function is not supported if it needs local memory or constants.
"""

_TEXT = """
; workgroup size, constants, workgroup count, concurrency, bindings: numbers; arrays, and lengths
%dispatch = type {{ i32, i32, i16, i16, i32, i32, i16, i8, i8, ptr, ptr, ptr }}
; workgroup, reserved, processor, local memory, its size
%workgroup = type {{ i32, i32, i16, i16, i32, ptr, i32 }}
; header, imports, number of functions, functions, their attributes
%library = type {{ ptr, i64, ptr, i64, ptr, ptr }}
; flags; pages of local memory (i16), number of constants (i8), number of bindings (i8)
%attributes = type {{ i64, i32 }}

declare ptr @{query}(i32, ptr)

define i32 @{symbol}(i64 %rtask, {parameters}) {{
  %environment = alloca [12 x i64]
  store [12 x i64] zeroinitializer, ptr %environment
  %bindings = alloca [{count} x ptr]
  %lengths = alloca [{count} x i64]
{operands}
  store [{count} x ptr] %b{count}, ptr %bindings
  store [{count} x i64] [{lengths}], ptr %lengths
  %d = alloca %dispatch
  %d0 = insertvalue %dispatch {{ i32 1, i32 1, i16 1, i16 0, i32 {x}, i32 {y}, i16 {z}, i8 1,
    i8 {count}, ptr null, ptr null, ptr null }}, ptr %bindings, 10
  %d1 = insertvalue %dispatch %d0, ptr %lengths, 11
  store %dispatch %d1, ptr %d
  %w = alloca %workgroup
  %l = call ptr @{query}(i32 {version}, ptr %environment)
  %absent = icmp eq ptr %l, null
  br i1 %absent, label %refused, label %found
found:
  %functions.at = getelementptr %library, ptr %l, i32 0, i32 4
  %functions = load ptr, ptr %functions.at
  %function = load ptr, ptr %functions
  %attributes.at = getelementptr %library, ptr %l, i32 0, i32 5
  %a = load ptr, ptr %attributes.at
  %needs.at = getelementptr %attributes, ptr %a, i32 0, i32 1
  %needs = load i32, ptr %needs.at
  %fits = icmp eq i32 %needs, {needs}
  br i1 %fits, label %begin, label %refused
refused:
  ret i32 {refused}
begin:
  %first = mul i64 %rtask, {each}
  %limit = add i64 %first, {each}
  br label %next
next:
  %number = phi i64 [ %first, %begin ], [ %following, %run ]
  %more = icmp ult i64 %number, %limit
  br i1 %more, label %run, label %done
run:
  %n = trunc i64 %number to i32
  %x = urem i32 %n, {x}
  %yz = udiv i32 %n, {x}
  %y = urem i32 %yz, {y}
  %z32 = udiv i32 %yz, {y}
  %z = trunc i32 %z32 to i16
  %w0 = insertvalue %workgroup zeroinitializer, i32 %x, 0
  %w1 = insertvalue %workgroup %w0, i32 %y, 1
  %w2 = insertvalue %workgroup %w1, i16 %z, 2
  store %workgroup %w2, ptr %w
  %status = call i32 %function(ptr %environment, ptr %d, ptr %w)
  %following = add i64 %number, 1
  %succeeded = icmp eq i32 %status, 0
  br i1 %succeeded, label %next, label %failed
failed:
  ret i32 %status
done:
  ret i32 0
}}
"""


@dataclass(frozen=True)
class Call:
    """The arguments of a call of IREE's dispatch function.

    Attributes:
        query: name of the function that returns the library with the dispatch function.
        workgroups: number of workgroups along x, y and z.
        bindings: for each buffer binding of the dispatch, the index of the region's operand.
        num_bytes: size in bytes of each operand of the region, inputs first.
    """

    query: str
    workgroups: tuple[int, int, int]
    bindings: tuple[int, ...]
    num_bytes: tuple[int, ...]

    @property
    def num_workgroups(self) -> int:
        """The number of workgroups of the call: the product of those along x, y and z."""
        x, y, z = self.workgroups
        return x * y * z


def adapter_ir(symbol: str, call: Call, each: int) -> str:
    """Return LLVM IR of a function that runs one rTask by calling IREE's dispatch function.

    The function's signature is ``i32 symbol(i64 rtask, ptr operand0, ...)``. It returns 0 on
    success, ``REFUSED`` (no usable library), or the status of the first workgroup that fails.

    Args:
        symbol: name of the function.
        call: the arguments of the dispatch function.
        each: number of consecutive workgroups in an rTask; x varies fastest.
    """
    x, y, z = call.workgroups
    bindings, count = call.bindings, len(call.bindings)
    operands = (
        f"  %b{n + 1} = insertvalue [{count} x ptr] {f'%b{n}' if n else 'undef'}, ptr %a{a}, {n}"
        for n, a in enumerate(bindings)
    )
    lengths = (f"i64 {call.num_bytes[operand]}" for operand in bindings)
    return _TEXT.format(
        query=call.query, symbol=symbol, count=count, x=x, y=y, z=z, each=each, needs=count << 24,
        parameters=", ".join(f"ptr %a{number}" for number in range(len(call.num_bytes))),
        operands="\n".join(operands), lengths=", ".join(lengths), version=INTERFACE_VERSION,
        refused=REFUSED,
    )  # fmt: skip
