// Times of passes as a list sorted by time, as text or JSON; MLIR's statistics in both displays; two options of mlir-opt that change nothing here.
// RUN: rammer-opt %s --cse --rtask-form-operators --mlir-timing --mlir-timing-display=list -o /dev/null 2>&1 | filecheck %s --check-prefix=LIST
// RUN: rammer-opt %s --cse --mlir-timing --mlir-timing-display=tree --mlir-output-format=json -o /dev/null 2> %t.json
// RUN: %python -c "import json, sys; print(*(row['name'] for row in json.load(open(sys.argv[1]))))" %t.json | filecheck %s --check-prefix=JSON
// RUN: rammer-opt %s --cse --rtask-form-operators --mlir-pass-statistics -o /dev/null 2>&1 | filecheck %s --check-prefix=STATISTICS
// RUN: rammer-opt %s --cse --mlir-pass-statistics --mlir-pass-statistics-display=list -o /dev/null 2>&1 | filecheck %s --check-prefix=STATISTICS
// RUN: rammer-opt %s --cse --mlir-disable-threading --mlir-print-ir-module-scope --mlir-print-ir-after=cse -o /dev/null 2>&1 | filecheck %s --check-prefix=SCOPE
// RUN: not rammer-opt %s --cse --mlir-timing --mlir-output-format=yaml 2>&1 | filecheck %s --check-prefix=FORMAT

// LIST: ----Wall Time----  ----Name----
// LIST-DAG: {{[0-9.]+}} ({{.*}}%)  cse
// LIST-DAG: {{[0-9.]+}} ({{.*}}%)  rtask-form-operators
// LIST: {{[0-9.]+}} (100.0%)  Total
// JSON: Parser cse Output Rest Total
// STATISTICS: Pass statistics report
// STATISTICS-NOT: Pass statistics report
// SCOPE: IR Dump After cse //
// SCOPE-NEXT: module
// SCOPE-NEXT: func.func @main
// FORMAT: error: {{.*}}--mlir-output-format: invalid choice: 'yaml' (choose from {{'?}}text{{'?}}, {{'?}}json{{'?}})
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
