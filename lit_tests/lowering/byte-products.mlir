// RUN: rammer-opt %s --rtask-vectorize-kernels='vector-bits=512 byte-products=vpdpbusd' | filecheck %s --check-prefix=VNNI
// RUN: rammer-opt %s --rtask-vectorize-kernels='vector-bits=256 byte-products=pmaddwd' | filecheck %s --check-prefix=WORDS
// RUN: rammer-opt %s --rtask-vectorize-kernels='vector-bits=512' | filecheck %s --check-prefix=PLAIN

#data = affine_map<(m, n, k, t) -> (m, k, t)>
#weights = affine_map<(m, n, k, t) -> (k, n, t)>
#result = affine_map<(m, n, k, t) -> (m, n)>

// Both factors are read in words of four bytes. The data's word is broadcast, a register of weights
// has the words of 16 columns.
// VNNI-LABEL: func.func private @product
// VNNI: memref.view %{{.*}} : memref<{{.*}}xi8> to memref<?xi32>
// VNNI: memref.view %{{.*}} : memref<{{.*}}xi8> to memref<?xi32>
// VNNI: scf.for
// VNNI-DAG: vector.load %{{.*}} : memref<?xi32>, vector<16xi32>
// VNNI-DAG: memref.load %{{.*}} : memref<?xi32>
// VNNI: %[[SUM:.*]] = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%{{.*}}, %{{.*}}, %{{.*}}) : (vector<16xi32>, vector<64xi8>, vector<64xi8>) -> vector<16xi32>
// VNNI-NOT: arith.muli

// Without VNNI, the even and the odd bytes are extended to 16 bits and multiplied in pairs.
// WORDS-LABEL: func.func private @product
// WORDS: arith.shrsi %{{.*}} : vector<16xi16>
// WORDS-COUNT-2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"(%{{.*}}, %{{.*}}) : (vector<16xi16>, vector<16xi16>) -> vector<8xi32>

// PLAIN-LABEL: func.func private @product
// PLAIN-NOT: llvm.call_intrinsic
// PLAIN: arith.muli
func.func private @product(%task: index, %a: memref<5x16x4xi8>, %w: memref<16x48x4xi8>, %y: memref<5x48xi32>) {
  %zero = arith.constant 0 : i32
  linalg.fill ins(%zero : i32) outs(%y : memref<5x48xi32>)
  linalg.generic {indexing_maps = [#data, #weights, #result], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%a, %w : memref<5x16x4xi8>, memref<16x48x4xi8>) outs(%y : memref<5x48xi32>) {
  ^bb0(%in: i8, %by: i8, %out: i32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.extsi %by : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %out, %2 : i32
    linalg.yield %3 : i32
  }
  return
}
