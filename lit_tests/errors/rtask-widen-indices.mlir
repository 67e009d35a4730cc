// RUN: rammer-opt %s --split-input-file --verify-diagnostics --rtask-widen-indices -o /dev/null

// expected-error @+1 {{'func.func': expected static tensors, found tensor<?xf32>: give open dimensions a size}}
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

func.func @main(%v: i64) -> index {
  %i = arith.index_cast %v : i64 to index
  // expected-error @+1 {{'affine.apply': expected operands and results of 'affine.apply' below 2^31, found one that may exceed it; run lower-affine first}}
  %j = affine.apply affine_map<(d) -> (d + 1)>(%i)
  return %j : index
}

// -----

func.func @main(%v: i64) -> index {
  %i = arith.index_cast %v : i64 to index
  // expected-error @+1 {{'arith.mulsi_extended': expected an operation with one result on indices that may exceed 32 bits, found 'arith.mulsi_extended'; compute with i64}}
  %low, %high = arith.mulsi_extended %i, %i : index
  return %high : index
}
