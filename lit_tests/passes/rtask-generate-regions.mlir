// Code generators make code of regions; it becomes a candidate beside the host's rKernels.
// RUN: rammer-opt %s --plugin %S/Inputs/codegens.py --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=writer},rtask-merge-regions,rtask-outline-regions,rtask-generate-regions)' | filecheck %s
// RUN: rammer-opt %s --plugin %S/Inputs/codegens.py --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=writer},rtask-merge-regions,rtask-outline-regions,rtask-generate-regions,rtask-form-operators,rtask-tile{candidates=1},rtask-bufferize)' | filecheck %s --check-prefix=BESIDE
// RUN: rammer-opt %s --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=onnxruntime},rtask-merge-regions,rtask-outline-regions,rtask-generate-regions{options=iree.seconds=7&onnxruntime.threads=2})' | filecheck %s --check-prefix=OPTIONS
// RUN: rammer-opt %s --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=onnxruntime},rtask-merge-regions,rtask-outline-regions,rtask-generate-regions{options=onnxruntime.threads=all})' | filecheck %s --check-prefix=DEVICE
// RUN: not rammer-opt %s --pass-pipeline='builtin.module(linalg-generalize-named-ops,rtask-annotate-regions{codegens=onnxruntime},rtask-merge-regions,rtask-outline-regions,rtask-generate-regions{options=onnxruntime.speed=2})' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// The sum and the product behind it are one region; a product alone is left to the host.
// CHECK-DAG: "rtask.module"() {{.*}}code = "int32_t f(); /* ['add', 'mul'] (3,) */"{{.*}}sym_name = "writer_0_code"
// CHECK-DAG: func.func private @writer_0({{.*}}rtask.codegen = "writer"{{.*}}rtask.generated = {bytes = 96 : i64, external = {module = @writer_0_code, symbol = "f"}, num_rtasks = 4 : i64
// CHECK: func.func private @writer_1(%{{.*}}) -> tensor<4x8xf32> attributes {rtask.codegen = "writer"} {
// BESIDE: rtask.operator 0 [@writer_0_t0_b, @writer_0_x0_b](%
// BESIDE: rtask.operator {{[12]}} @writer_1_t0_b(%

// An engine's options are on its modules; those of others are not.
// OPTIONS: "rtask.module"() {{.*}}engine = "onnxruntime"{{.*}}options = {threads = "2"}
// With all threads, a region has the device to itself.
// DEVICE: "rtask.module"() {{.*}}engine = "onnxruntime"{{.*}}options = {threads = "all"}
// DEVICE: rtask.generated = {{.*}}external = {grain = "device", module = @onnxruntime_0_code, state, symbol = "onnxruntime_0"}
// UNKNOWN: module_options: unknown option 'onnxruntime.speed', expected one of {{.*}}onnxruntime.threads
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.add ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.mul ins(%0, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = linalg.tanh ins(%1 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = linalg.mul ins(%2, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
