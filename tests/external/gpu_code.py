"""Code for GPUs that tests of external rKernels share: it multiplies a row by three."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import parser

import rammer_mlir
from rammer_mlir.runtime.compiled import CompiledModel
from tests.external.providers import COLUMNS, ROWS, Rows, offered

TRIPLED_IR = """
define void @rows(i64 %rtask, i32 %thread, i32 %threads, ptr %x, ptr %y) noinline {
  %from = mul i64 %rtask, 64
  %first = zext i32 %thread to i64
  %step = zext i32 %threads to i64
  %any = icmp ult i64 %first, 64
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [%first, %0], [%next, %loop]
  %at = add i64 %from, %i
  %p = getelementptr float, ptr %x, i64 %at
  %q = getelementptr float, ptr %y, i64 %at
  %v = load float, ptr %p
  %w = fmul float %v, 3.0
  store float %w, ptr %q
  %next = add i64 %i, %step
  %more = icmp ult i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  ret void
}"""

TRIPLED_CUDA = """
static __device__ float tripled(float x) { return 3 * x; }
extern "C" __device__ void rows(
    long long rtask, int thread, int threads, const float *x, float *y) {
  __shared__ float row[64];
  for (int i = thread; i < 64; i += threads) row[i] = x[64 * rtask + i];
  __syncthreads();
  for (int i = threadIdx.x; i < 64; i += blockDim.x) y[64 * rtask + i] = tripled(row[i]);
}"""

TRIPLED_PTX = """// Copies a row to shared memory, and stores three times each element.
.version 7.0
.target sm_70
.address_size 64

.visible .func rows(
  .param .b64 rows_param_0,
  .param .b32 rows_param_1,
  .param .b32 rows_param_2,
  .param .b64 rows_param_3,
  .param .b64 rows_param_4
)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  .shared .align 4 .b8 rows_row[256];
  ld.param.b32 %r1, [rows_param_1];
  setp.gt.u32 %p1, %r1, 63;
  ld.param.b64 %rd1, [rows_param_0];
  ld.param.b64 %rd2, [rows_param_3];
  ld.param.b64 %rd3, [rows_param_4];
  shl.b64 %rd1, %rd1, 8;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd1, %rd4;
  shl.b32 %r2, %r1, 2;
  mov.b32 %r3, rows_row;
  add.s32 %r3, %r3, %r2;
  @%p1 bra $Lmeet;
  add.s64 %rd6, %rd2, %rd5;
  ld.b32 %r4, [%rd6];
  mul.rn.f32 %r4, %r4, 0f40400000; // 3
  st.shared.b32 [%r3], %r4;
$Lmeet:
  bar.sync 0;
  @%p1 bra $Ldone;
  ld.shared.b32 %r5, [%r3];
  add.s64 %rd7, %rd3, %rd5;
  st.b32 [%rd7], %r5;
$Ldone:
  ret;
}
"""


def tripled_product() -> onnx.ModelProto:
    """Return a model of two rOperators: 3 x, which external rKernels compute, and a product."""
    size = f"[{ROWS},{COLUMNS}]"
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float{size} x, float[{COLUMNS},8] w) '
        f"=> (float[{ROWS},8] z) {{ a = Add(x, x)  y = Add(a, x)  z = MatMul(y, w) }}"
    )


def compiled(
    rows: Rows, target: str, model: onnx.ModelProto | None = None, **options: Any
) -> CompiledModel:
    """Compile a model for a GPU with the rKernels of ``rows`` for all rOperators that they fit.

    The model is that of ``tripled_product`` by default.
    """
    with offered(rows):
        found = rammer_mlir.compile(
            model or tripled_product(), target=target, rkernels="rows", costs="favour",
            num_veus=options.pop("num_veus", 2), policy="list", **options,
        )  # fmt: skip
    assert isinstance(found, CompiledModel)
    return found
