// Loops and branches on tensors.
func.func private @half(%a: tensor<8xf32>) -> tensor<8xf32> {
  %h = arith.constant dense<0.5> : tensor<8xf32>
  %r = arith.mulf %a, %h : tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @calls(%a: tensor<8xf32>) -> tensor<8xf32> {
  %b = func.call @half(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %c = func.call @half(%b) : (tensor<8xf32>) -> tensor<8xf32>
  %r = arith.subf %c, %a : tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @short_loop(%a: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %a) -> (tensor<4x4xf32>) {
    %y = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = math.tanh %y : tensor<4x4xf32>
    scf.yield %t : tensor<4x4xf32>
  }
  return %r : tensor<4x4xf32>
}
func.func @long_loop(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c200 = arith.constant 200 : index
  %d = arith.constant dense<0.01> : tensor<4xf32>
  %r = scf.for %i = %c0 to %c200 step %c1 iter_args(%x = %a) -> (tensor<4xf32>) {
    %y = arith.addf %x, %d : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
func.func @counted_by_data(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (tensor<4xf32>) {
    %y = arith.addf %x, %a : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
func.func @loop_over_rows(%a: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %e = tensor.empty() : tensor<5x3xf32>
  %r = scf.for %i = %c0 to %c5 step %c1 iter_args(%x = %e) -> (tensor<5x3xf32>) {
    %s = tensor.extract_slice %a[%i, 0] [1, 3] [1, 1] : tensor<5x3xf32> to tensor<3xf32>
    %t = math.exp %s : tensor<3xf32>
    %y = tensor.insert_slice %t into %x[%i, 0] [1, 3] [1, 1] : tensor<3xf32> into tensor<5x3xf32>
    scf.yield %y : tensor<5x3xf32>
  }
  return %r : tensor<5x3xf32>
}
func.func @sum_of_elements(%a: tensor<9xf32>, %n: index) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %z) -> (f32) {
    %v = tensor.extract %a[%i] : tensor<9xf32>
    %y = arith.addf %x, %v : f32
    scf.yield %y : f32
  }
  return %r : f32
}
func.func @while_loop(%a: tensor<3xf32>, %limit: f32) -> (tensor<3xf32>, i32) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:2 = scf.while (%x = %a, %n = %z) : (tensor<3xf32>, i32) -> (tensor<3xf32>, i32) {
    %v = tensor.extract %x[%c0] : tensor<3xf32>
    %m = math.absf %v : f32
    %l = math.absf %limit : f32
    %c = arith.cmpf ogt, %m, %l : f32
    scf.condition(%c) %x, %n : tensor<3xf32>, i32
  } do {
  ^bb0(%x: tensor<3xf32>, %n: i32):
    %h = arith.constant dense<0.5> : tensor<3xf32>
    %y = arith.mulf %x, %h : tensor<3xf32>
    %k = arith.addi %n, %one : i32
    scf.yield %y, %k : tensor<3xf32>, i32
  }
  return %r#0, %r#1 : tensor<3xf32>, i32
}
func.func @branch(%c: i1, %a: tensor<6xf32>) -> tensor<6xf32> {
  %r = scf.if %c -> (tensor<6xf32>) {
    %x = math.exp %a : tensor<6xf32>
    scf.yield %x : tensor<6xf32>
  } else {
    %y = arith.negf %a : tensor<6xf32>
    scf.yield %y : tensor<6xf32>
  }
  return %r : tensor<6xf32>
}
func.func @branch_in_body(%a: tensor<4xi32>, %b: tensor<2xi32>) -> tensor<4xi32> {
  %c2 = arith.constant 2 : index
  %z = arith.constant 0 : i32
  %c9 = arith.constant 9 : i32
  %e = tensor.empty() : tensor<4xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi32>) outs(%e : tensor<4xi32>) {
  ^bb0(%in: i32, %out: i32):
    %i = linalg.index 0 : index
    %c = arith.cmpi ult, %i, %c2 : index
    %v = scf.if %c -> (i32) {
      %x = tensor.extract %b[%i] : tensor<2xi32>
      scf.yield %x : i32
    } else {
      %nz = arith.cmpi ne, %in, %z : i32
      %w = scf.if %nz -> (i32) {
        %d = arith.divsi %c9, %in : i32
        scf.yield %d : i32
      } else {
        scf.yield %z : i32
      }
      scf.yield %w : i32
    }
    linalg.yield %v : i32
  } -> tensor<4xi32>
  return %r : tensor<4xi32>
}
func.func @affine_loop(%a: tensor<8xf32>) -> tensor<8xf32> {
  %r = affine.for %i = 0 to 3 iter_args(%x = %a) -> tensor<8xf32> {
    %y = arith.addf %x, %a : tensor<8xf32>
    affine.yield %y : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
func.func @shared_by_threads(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %r = scf.forall (%i, %j) = (1, 0) to (4, 6) step (1, 2) shared_outs(%o = %b) -> tensor<4x6xf32> {
    %s = tensor.extract_slice %a[%i, %j] [1, 2] [1, 1] : tensor<4x6xf32> to tensor<1x2xf32>
    %e = arith.mulf %s, %s : tensor<1x2xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %e into %o[%i, %j] [1, 2] [1, 1]
        : tensor<1x2xf32> into tensor<4x6xf32>
    }
  }
  return %r : tensor<4x6xf32>
}
func.func @allocated(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = bufferization.alloc_tensor() copy(%a) : tensor<8xf32>
  %e = bufferization.alloc_tensor() : tensor<8xf32>
  %d = arith.addf %c, %a : tensor<8xf32>
  %m = bufferization.materialize_in_destination %d in %e
    : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %m, %c : tensor<8xf32>, tensor<8xf32>
}

func.func @blocks(%a: tensor<4xf32>, %n: i32) -> tensor<4xf32> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  cf.br ^head(%a, %zero : tensor<4xf32>, i32)
^head(%x: tensor<4xf32>, %i: i32):
  %more = arith.cmpi slt, %i, %n : i32
  cf.cond_br %more, ^body, ^end
^body:
  %y = arith.addf %x, %a : tensor<4xf32>
  %j = arith.addi %i, %one : i32
  cf.br ^head(%y, %j : tensor<4xf32>, i32)
^end:
  return %x : tensor<4xf32>
}
