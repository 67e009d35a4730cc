// RUN: rammer-opt %s --rtask-expand-math | filecheck %s

// CHECK-LABEL: func.func @vector
// CHECK-NOT: math.
// CHECK: arith.bitcast {{.*}} : vector<8xf32> to vector<8xi32>
// CHECK-NOT: math.
// CHECK: return
func.func @vector(%x: vector<8xf32>) -> vector<8xf32> {
  %e = math.exp %x : vector<8xf32>
  %l = math.log %e : vector<8xf32>
  %t = math.tanh %l : vector<8xf32>
  return %t : vector<8xf32>
}

// Double precision is left to libm, and so is what has no expansion.
// CHECK-LABEL: func.func @others
// CHECK: math.exp {{.*}} : f64
// CHECK: math.atan {{.*}} : f32
func.func @others(%x: f64, %y: f32) -> (f64, f32) {
  %e = math.exp %x : f64
  %a = math.atan %y : f32
  return %e, %a : f64, f32
}
