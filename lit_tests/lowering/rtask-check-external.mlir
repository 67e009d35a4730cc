// Each rTask of external code runs alone, with poison outside of its boxes, beside the compiler's own rKernel.
// RUN: rammer-opt %s --rtask-check-external | filecheck %s
// RUN: sed 's/y\[8 \* rtask + i\]/y[(8 * rtask + i + 8) % 32]/' %s | not rammer-opt - --rtask-check-external 2>&1 | filecheck %s --check-prefix=WRITES
// RUN: sed 's/x\[8 \* rtask + i\] \* 2/x[(8 * rtask + i + 8) % 32] * 2/' %s | not rammer-opt - --rtask-check-external 2>&1 | filecheck %s --check-prefix=READS
// RUN: sed 's/\* 2/* 3/' %s | not rammer-opt - --rtask-check-external=tolerance=0.1 2>&1 | filecheck %s --check-prefix=NUMBERS
// RUN: not rammer-opt %s --rtask-check-external=rtasks=0 2>&1 | filecheck %s --check-prefix=OPTION

// CHECK: rtask.operator 0 [@own, @foreign](%
// WRITES: external rKernel '@foreign': expected rTask 0 to write its box of argument 1 alone, found elements outside of it changed; mend its code or its boxes, or leave it out
// READS: external rKernel '@foreign': expected rTask 0 to compute argument 1 from its boxes alone, within 0.001 of the compiler's own rKernel, found a difference of nan
// NUMBERS: within 0.1 of the compiler's own rKernel, found a difference of 0.{{[0-9]+}};
// OPTION: rtask-check-external: rtasks: expected at least 1, found 0
"rtask.module"() {sym_name = "code", form = "c", code = "#include <stdint.h>\0Aint32_t twice(int64_t rtask, const float *x, float *y) { for (int i = 0; i < 8; i++) y[8 * rtask + i] = x[8 * rtask + i] * 2; return 0; }"} : () -> ()
func.func private @own(%t: index, %x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<4x8xf32>) outs(%y : memref<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %a : f32
    linalg.yield %0 : f32
  }
  return
}
func.func private @foreign(index, memref<4x8xf32>, memref<4x8xf32>)
"rtask.kernel"() {function = @own, num_rtasks = 1 : i64, threads = 1 : i64, shared_memory = 0 : i64, barriers = 0 : i64, operations = 32 : i64, bytes = 256 : i64, reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 4, 8>}], writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (0, 0)>, sizes = array<i64: 4, 8>}]} : () -> ()
"rtask.kernel"() {function = @foreign, num_rtasks = 4 : i64, threads = 1 : i64, shared_memory = 0 : i64, barriers = 0 : i64, operations = 8 : i64, bytes = 64 : i64, external = {module = @code, symbol = "twice"}, reads = [{argument = 0 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 8>}], writes = [{argument = 1 : i64, offsets = affine_map<(d0) -> (d0, 0)>, sizes = array<i64: 1, 8>}]} : () -> ()
func.func @main(%x: memref<4x8xf32>, %y: memref<4x8xf32> {rtask.output}) {
  "rtask.operator"(%x, %y) {kernels = [@own, @foreign], operator_id = 0 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  return
}
