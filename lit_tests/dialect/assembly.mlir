// The readable form: what is printed is read back and printed the same, locations included; the
// generic form is read and printed too.
// RUN: rammer-opt %s -o %t.mlir
// RUN: filecheck %s --input-file %t.mlir
// RUN: rammer-opt %t.mlir -o %t.again.mlir
// RUN: cmp %t.mlir %t.again.mlir
// RUN: rammer-opt %s --print-rtask-generic | rammer-opt - --print-rtask-generic | filecheck %s --check-prefix=GENERIC
// RUN: rammer-opt %s --mlir-print-op-generic | rammer-opt - --print-rtask-generic | filecheck %s --check-prefix=GENERIC
// RUN: rammer-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=ALL
// RUN: rammer-opt %s --mlir-print-debuginfo -o %t.loc.mlir
// RUN: filecheck %s --check-prefix=LOC --input-file %t.loc.mlir
// RUN: rammer-opt %t.loc.mlir --mlir-print-debuginfo -o %t.again.mlir
// RUN: cmp %t.loc.mlir %t.again.mlir

// The maps of boxes stand in the boxes; others keep their alias.
// CHECK: {{^}}#[[MAP:.*]] = affine_map<(d0) -> (d0 + 1)>
// CHECK-NEXT: module

// ALL: "builtin.module"
// ALL: "rtask.kernel"

func.func private @"odd \22name\22 {\\ \C3\A9"(%id: index, %a: memref<1x4xf32>, %out: memref<1x4xf32>) {
  return
}
// CHECK: rtask.kernel @"odd \22name\22 {\\ \C3\A9" rtasks(4) threads(32) shared_memory(8) barriers(1) operations(2) bytes(32) seconds(1.000000e-05, 2.500000e-05, 3.000000e+00) attributes {"key of words" = [1, "}{ // no"], rtask.kernel = 3 : i64, rtask.run, test.map = #[[MAP]]} {
// CHECK-NEXT:   reads 0[0 +: 1, d0 mod 4 +: 1]
// CHECK-NEXT:   writes 1[0 +: 1, d0 +: 1]
// CHECK-NEXT: }
// GENERIC: "rtask.kernel"() {barriers = 1 : i64, bytes = 32 : i64, function = @"odd \22name\22 {\\ \C3\A9", "key of words" = [1, "}{ // no"], num_rtasks = 4 : i64,
// GENERIC-SAME: reads = [{argument = 0 : i64, offsets = #{{.*}}, sizes = array<i64: 1, 1>}]
rtask.kernel @"odd \22name\22 {\\ é"   // comments may stand anywhere
    rtasks(4) barriers(1) shared_memory(8) threads(32)
    operations(2) bytes(32) seconds(1.0e-5, 2.5e-05, 3.0)
    attributes {rtask.kernel = 3 : i64, "key of words" = [1, "}{ // no"], // and here
      rtask.run, test.map = affine_map<(d0) -> (d0 + 1)>} {
  writes 1[0 +: 1, d0 +: 1]
  reads 0[0 +: 1,
          d0 mod 4 +: 1]
}

func.func private @scalar(%id: index, %out: memref<f32>) {
  return
}
// CHECK:      rtask.kernel @scalar rtasks(1) operations(0) bytes(4) attributes {updates = []} {
// CHECK-NEXT:   writes 0[]
// CHECK-NEXT: }
rtask.kernel @scalar rtasks(1) operations(0) bytes(4) attributes {updates = []} {
  writes 0[]
}

func.func private @split(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %a, %a : tensor<4xf32>, tensor<4xf32>
}
// CHECK: func.func @operators({{.*}}) attributes {rtask.operator}
func.func @operators(%a: tensor<4xf32>) attributes {rtask.operator} {
  // CHECK-NEXT: %0:2 = rtask.operator "Split \22 \\ \C3\A9 {" [@split, @split](%arg0) {test.unit} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %0:2 = rtask.operator "Split \22 \\ é {" [@split, @split] (%a) {test.unit}
    : (tensor<4xf32>)
      -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK-NEXT: %1:2 = rtask.operator @split(%0#1)
  %1:2 = rtask.operator @split(%0#1) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// CHECK: func.func @main
func.func @main(%a: memref<1x4xf32>, %y: memref<1x4xf32>) {
  // CHECK-NEXT: rtask.operator 7 "copy" @"odd \22name\22 {\\ \C3\A9"(%arg0, %arg1) : (memref<1x4xf32>, memref<1x4xf32>) -> ()
  // LOC: rtask.operator 7 @"odd \22name\22 {\\ \C3\A9"(%arg0, %arg1) : (memref<1x4xf32>, memref<1x4xf32>) -> () loc(#[[COPY:.*]])
  rtask.operator 7 "copy" @"odd \22name\22 {\\ é"(%a, %y) : (memref<1x4xf32>, memref<1x4xf32>) -> ()
  // CHECK-NEXT: rtask.program on "c\22pu" veus(3) buffers(
  // CHECK-NEXT:     %arg0: memref<1x4xf32>,
  // CHECK-NEXT:     %arg1: memref<1x4xf32>) attributes {test.width = 1 : i32} {
  // CHECK-NEXT:   veu 0 attributes {test.name = "x"} {
  // CHECK-NEXT:     run @"odd \22name\22 {\\ \C3\A9"[0..2] of 7 "copy" (%arg0, %arg1) {test.symbol = @main}
  // CHECK-NEXT:   }
  // CHECK-NEXT:   veu 1 {
  // CHECK-NEXT:     wait {test.unit}
  // CHECK-NEXT:     wait veu 0 @ 2, veu 0 @ 1 {test.dense = dense<[1, 2]> : tensor<2xi32>}
  // CHECK-NEXT:     run @"odd \22name\22 {\\ \C3\A9"[3] of 7 (%arg0, %arg1)
  // CHECK-NEXT:   }
  // CHECK-NEXT:   veu 2 {
  // CHECK-NEXT:   }
  // CHECK-NEXT: }
  // LOC: run {{.*}} of 7 (%arg0, %arg1) {test.symbol = @main} loc(#[[RECORD:.*]])
  // LOC-NEXT: } loc(#
  // LOC: wait veu 0 @ 2, veu 0 @ 1 {{.*}} loc(#[[WAIT:.*]])
  // LOC: } loc(#[[VEU:.*]])
  // LOC: veu 2 {
  // LOC-NEXT: } loc(#
  // LOC-NEXT: } loc(#[[PROGRAM:.*]])
  // LOC-DAG: #[[RECORD]] = loc("copy"(#
  // LOC-DAG: #[[WAIT]] = loc("synchronize")
  // LOC-DAG: #[[VEU]] = loc("second")
  // LOC-DAG: #[[PROGRAM]] = loc("whole")
  rtask.program on "c\22pu" veus(3) buffers(
      %y: memref<1x4xf32>, %a: memref<1x4xf32 // a type over two lines
      >) attributes {test.width = 1 : i32} {
    veu 0 attributes {test.name = "x"} {
      run @"odd \22name\22 {\\ é"[0..2] of 7 "copy" (%a, %y)
          {test.symbol = @main}
    }
    veu 1 {
      wait {test.unit}
      wait veu 0 @ 2, veu 0 @ 1 {test.dense = dense<[1, 2]> : tensor<2xi32>} loc("synchronize")
      run @"odd \22name\22 {\\ é"[3..3] of 7(%a, %y)
    } loc("second")
    veu 2 {}
  } loc("whole")
  // A number that is no i64 has no readable form: all of its program stays generic.
  // CHECK-NEXT: "rtask.program"() ({
  // CHECK-NEXT:   "rtask.veu"() ({
  // CHECK-NEXT:     "rtask.run"(%arg0, %arg1) {count = 4 : i32,
  "rtask.program"() ({
    "rtask.veu"() ({
      "rtask.run"(%a, %y) {kernel = @"odd \22name\22 {\\ é", operator_id = 7 : i64, first = 0 : i64, count = 4 : i32}
          : (memref<1x4xf32>, memref<1x4xf32>) -> ()
    }) {id = 0 : i64} : () -> ()
  }) {device = "cpu", num_veus = 1 : i64} : () -> ()
  return
}
