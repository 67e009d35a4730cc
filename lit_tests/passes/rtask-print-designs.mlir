// RUN: rammer-opt %s --rtask-print-designs -o %t 2>&1 | filecheck %s
// RUN: rammer-opt %t 2>/dev/null | filecheck %s --check-prefix=SAME
// RUN: rammer-opt %s --rtask-print-designs='device=h100 values=true' -o /dev/null 2>&1 | filecheck %s --check-prefix=VALUES
// RUN: rammer-opt %s --rtask-print-designs='tiles=true num-veus=4' -o /dev/null 2>&1 | filecheck %s --check-prefix=TILES
// RUN: not rammer-opt %s --rtask-print-designs='device=none' 2>&1 | filecheck %s --check-prefix=DEVICE
// RUN: not rammer-opt %s --rtask-print-designs='num-veus=-1' 2>&1 | filecheck %s --check-prefix=VEUS
// RUN: not rammer-opt %s --rtask-tile --rtask-print-designs 2>&1 | filecheck %s --check-prefix=TILED
// RUN: echo 'func.func @main() { return }' | not rammer-opt --rtask-print-designs 2>&1 | filecheck %s --check-prefix=NONE

// The rows of all four assignments are one variable, and the columns behind the exponential another
// one; the first maximum has columns of its own. Equal rOperators are printed once.
// CHECK:      @softmax (2 rOperators): 8 loops, 1,296 designs; 3 variables, 12; [[#]] taken
// CHECK-NEXT: {{^}}  [[#]].{{[0-9]+}} us, [[#]].{{[0-9]+}} us without a search
// CHECK-NEXT: {{^}}  maximumf_0.d1 (1000): vector
// CHECK-NEXT: {{^}}  exp_1.d1, addf_2.d1, divf_3.d1 (1000): vector
// CHECK-NEXT: {{^}}  maximumf_0.d0, exp_1.d0, addf_2.d0, divf_3.d0 (64): rTask
// CHECK-NEXT: @opaque: no loops to map

// The module passes through.
// SAME: rtask.operator @softmax
// SAME: rtask.operator @opaque

// What is broadcast, or read more than once, may also be recomputed or end the unit.
// VALUES:      @softmax (2 rOperators): 8 loops, {{.*}}; 6 variables, {{.*}} taken
// VALUES:      maximumf_0: stored
// VALUES-NEXT: exp_1: {{stored|recomputed|unit ends}}
// VALUES-NEXT: addf_2: {{stored|recomputed|unit ends}}
// VALUES:      rTask

// An rTask may compute several rows.
// TILES: 3 variables, {{.*}} taken
// TILES: (64): rTask of {{[0-9]+}}

// DEVICE: unknown device 'none': expected one of
// VEUS: rtask-print-designs: num-veus: expected at least 0, found -1
// TILED: error: 'rtask.kernel': expected rOperators on whole tensors, found an rKernel, whose loops are mapped already: print designs in front of rtask-tile
// NONE: rtask-print-designs: expected at least one rtask.operator, found none: run rtask-form-operators first
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func private @softmax(%x: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<64xf32>
  %empty = tensor.empty() : tensor<64x1000xf32>
  %max_start = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%low : f32) outs(%rows : tensor<64xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<64xf32>
  %max = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x1000xf32>) outs(%max_start : tensor<64xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %m = arith.maximumf %in, %acc : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  %exp = linalg.generic {indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<64x1000xf32>, tensor<64xf32>) outs(%empty : tensor<64x1000xf32>) {
  ^bb0(%in: f32, %m: f32, %o: f32):
    %d = arith.subf %in, %m : f32
    %e = math.exp %d : f32
    linalg.yield %e : f32
  } -> tensor<64x1000xf32>
  %sum_start = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%zero : f32) outs(%rows : tensor<64xf32>) {
  ^bb0(%in: f32, %o: f32):
    linalg.yield %in : f32
  } -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<64x1000xf32>) outs(%sum_start : tensor<64xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %s = arith.addf %in, %acc : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all],
      iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<64x1000xf32>, tensor<64xf32>) outs(%empty : tensor<64x1000xf32>) {
  ^bb0(%e: f32, %s: f32, %o: f32):
    %p = arith.divf %e, %s : f32
    linalg.yield %p : f32
  } -> tensor<64x1000xf32>
  return %y : tensor<64x1000xf32>
}
func.func private @opaque(%x: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %y = tensor.cast %x : tensor<64x1000xf32> to tensor<64x1000xf32>
  return %y : tensor<64x1000xf32>
}
func.func @main(%x: tensor<64x1000xf32>) -> tensor<64x1000xf32> {
  %0 = rtask.operator @softmax(%x) : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
  %1 = rtask.operator @softmax(%0) : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
  %2 = rtask.operator @opaque(%1) : (tensor<64x1000xf32>) -> tensor<64x1000xf32>
  return %2 : tensor<64x1000xf32>
}
