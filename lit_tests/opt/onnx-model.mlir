// An ONNX model as input: sizes of its open dimensions by name or by whole shapes, and weights in files in another folder.
// RUN: rm -rf %t && mkdir -p %t
// RUN: %python %S/Inputs/external_model.py %t/model.onnx %t/weights
// RUN: rammer-opt %t/model.onnx --dim batch=2 --dim length=3 --external-data %t/weights | filecheck %s
// RUN: rammer-opt %t/model.onnx --shape x=2x3x4 --external-data %t/weights | filecheck %s
// RUN: rammer-opt - --shape x=2x3x4 --external-data %t/weights < %t/model.onnx | filecheck %s
// RUN: not rammer-opt %t/model.onnx --shape x=2x3x4 2>&1 | filecheck %s --check-prefix=DATA
// RUN: not rammer-opt %t/model.onnx --dim batch=2 --external-data %t/weights 2>&1 | filecheck %s --check-prefix=OPEN
// RUN: not rammer-opt %t/model.onnx --dim batch=1,2 --dim length=3 --external-data %t/weights 2>&1 | filecheck %s --check-prefix=SEVERAL
// RUN: not rammer-opt %t/model.onnx --shape x=2x3 --external-data %t/weights 2>&1 | filecheck %s --check-prefix=RANK

// CHECK: tensor<2x3x4xf32>
// CHECK-SAME: {rtask.name = "x"}
// CHECK: arith.constant dense<[0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<4xf32>
// DATA: error: {{.*}}model.onnx': the external data of tensor 'w' cannot be read {{.*}}: expected a regular file beside the model, {{.*}}--external-data
// OPEN: error: the model leaves 'length' open: give --dim length=N
// SEVERAL: error: --dim batch: expected one size for IR of static shapes, found 2; give one of them
// RANK: error: input 'x': expected 3 dimensions, found 2 in 2,3
