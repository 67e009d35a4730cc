// Complex numbers: arithmetic, functions, shapes, control flow, Fourier transforms.

func.func @arithmetic(%a: tensor<3x5xcomplex<f32>>, %b: tensor<3x5xcomplex<f32>>) -> tensor<3x5xcomplex<f32>> {
  %c = stablehlo.constant dense<(1.5, -0.25)> : tensor<3x5xcomplex<f32>>
  %0 = stablehlo.multiply %a, %b : tensor<3x5xcomplex<f32>>
  %1 = stablehlo.add %0, %c : tensor<3x5xcomplex<f32>>
  %2 = stablehlo.divide %1, %b : tensor<3x5xcomplex<f32>>
  %3 = stablehlo.subtract %2, %a : tensor<3x5xcomplex<f32>>
  return %3 : tensor<3x5xcomplex<f32>>
}

func.func @functions(%a: tensor<17xcomplex<f64>>) -> (tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xf64>) {
  %0 = stablehlo.exponential %a : tensor<17xcomplex<f64>>
  %1 = stablehlo.log %a : tensor<17xcomplex<f64>>
  %2 = stablehlo.sqrt %a : tensor<17xcomplex<f64>>
  %3 = stablehlo.tanh %a : tensor<17xcomplex<f64>>
  %4 = stablehlo.sine %a : tensor<17xcomplex<f64>>
  %5 = stablehlo.abs %a : (tensor<17xcomplex<f64>>) -> tensor<17xf64>
  return %0, %1, %2, %3, %4, %5 : tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xcomplex<f64>>, tensor<17xf64>
}

func.func @parts(%re: tensor<6xf32>, %im: tensor<6xf32>) -> (tensor<6xcomplex<f32>>, tensor<6xf32>, tensor<6xi1>) {
  %0 = stablehlo.complex %re, %im : tensor<6xcomplex<f32>>
  %1 = stablehlo.negate %0 : tensor<6xcomplex<f32>>
  %2 = stablehlo.imag %1 : (tensor<6xcomplex<f32>>) -> tensor<6xf32>
  %3 = stablehlo.compare EQ, %0, %1 : (tensor<6xcomplex<f32>>, tensor<6xcomplex<f32>>) -> tensor<6xi1>
  %4 = stablehlo.select %3, %0, %1 : tensor<6xi1>, tensor<6xcomplex<f32>>
  return %4, %2, %3 : tensor<6xcomplex<f32>>, tensor<6xf32>, tensor<6xi1>
}

func.func @product(%a: tensor<9x20xcomplex<f32>>, %b: tensor<20x7xcomplex<f32>>) -> tensor<9x7xcomplex<f32>> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<9x20xcomplex<f32>>, tensor<20x7xcomplex<f32>>) -> tensor<9x7xcomplex<f32>>
  return %0 : tensor<9x7xcomplex<f32>>
}

func.func @sum(%a: tensor<4x33xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x33xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}

func.func @scalars(%s: complex<f32>, %t: tensor<4xcomplex<f32>>, %i: index) -> (complex<f32>, f32, tensor<2xcomplex<f32>>) {
  %e = tensor.extract %t[%i] : tensor<4xcomplex<f32>>
  %k = complex.constant [2.0 : f32, 1.0 : f32] : complex<f32>
  %p = complex.mul %s, %e : complex<f32>
  %q = complex.add %p, %k : complex<f32>
  %a = complex.abs %q : complex<f32>
  %f = tensor.from_elements %q, %s : tensor<2xcomplex<f32>>
  return %q, %a, %f : complex<f32>, f32, tensor<2xcomplex<f32>>
}

func.func @shapes(%a: tensor<3x4xcomplex<f32>>, %b: tensor<2x4xcomplex<f32>>) -> tensor<4x7xcomplex<f32>> {
  %z = stablehlo.constant dense<(0.5, 2.0)> : tensor<complex<f32>>
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<3x4xcomplex<f32>>, tensor<2x4xcomplex<f32>>) -> tensor<5x4xcomplex<f32>>
  %1 = stablehlo.pad %0, %z, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<5x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<7x4xcomplex<f32>>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<7x4xcomplex<f32>>) -> tensor<4x7xcomplex<f32>>
  return %2 : tensor<4x7xcomplex<f32>>
}

func.func @constants() -> (tensor<3xcomplex<f64>>, tensor<2x2xcomplex<f32>>) {
  %0 = arith.constant dense<[(1.0, 0.1), (0x7FF0000000000000, -2.0), (3.0, 4.5)]> : tensor<3xcomplex<f64>>
  %1 = stablehlo.constant dense<"0x0000803F00000040000040400000804000000000000080BF0000A0C00000C040"> : tensor<2x2xcomplex<f32>>
  return %0, %1 : tensor<3xcomplex<f64>>, tensor<2x2xcomplex<f32>>
}

func.func @long_loop(%a: tensor<4xcomplex<f32>>) -> (tensor<4xcomplex<f32>>, complex<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 200 : index
  %d = arith.constant 0.01 : f32
  %s = tensor.extract %a[%c1] : tensor<4xcomplex<f32>>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %s) -> (tensor<4xcomplex<f32>>, complex<f32>) {
    %k = complex.create %d, %d : complex<f32>
    %0 = tensor.extract %x[%c0] : tensor<4xcomplex<f32>>
    %1 = complex.add %0, %k : complex<f32>
    %2 = tensor.insert %1 into %x[%c0] : tensor<4xcomplex<f32>>
    %3 = complex.sub %y, %k : complex<f32>
    scf.yield %2, %3 : tensor<4xcomplex<f32>>, complex<f32>
  }
  return %r#0, %r#1 : tensor<4xcomplex<f32>>, complex<f32>
}

func.func @conditional(%c: tensor<i1>, %a: tensor<5xcomplex<f32>>) -> tensor<5xcomplex<f32>> {
  %0 = "stablehlo.if"(%c) ({
    %1 = stablehlo.exponential %a : tensor<5xcomplex<f32>>
    stablehlo.return %1 : tensor<5xcomplex<f32>>
  }, {
    stablehlo.return %a : tensor<5xcomplex<f32>>
  }) : (tensor<i1>) -> tensor<5xcomplex<f32>>
  return %0 : tensor<5xcomplex<f32>>
}

func.func @open(%a: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {
  %0 = stablehlo.multiply %a, %a : tensor<?xcomplex<f32>>
  return %0 : tensor<?xcomplex<f32>>
}

func.func @fourier(%a: tensor<3x20xcomplex<f32>>, %r: tensor<3x15xf32>, %h: tensor<3x4x6xcomplex<f64>>) -> (tensor<3x20xcomplex<f32>>, tensor<3x20xcomplex<f32>>, tensor<3x8xcomplex<f32>>, tensor<3x4x10xf64>) {
  %0 = stablehlo.fft %a, type = FFT, length = [20] : (tensor<3x20xcomplex<f32>>) -> tensor<3x20xcomplex<f32>>
  %1 = stablehlo.fft %a, type = IFFT, length = [3, 20] : (tensor<3x20xcomplex<f32>>) -> tensor<3x20xcomplex<f32>>
  %2 = stablehlo.fft %r, type = RFFT, length = [15] : (tensor<3x15xf32>) -> tensor<3x8xcomplex<f32>>
  %3 = stablehlo.fft %h, type = IRFFT, length = [4, 10] : (tensor<3x4x6xcomplex<f64>>) -> tensor<3x4x10xf64>
  return %0, %1, %2, %3 : tensor<3x20xcomplex<f32>>, tensor<3x20xcomplex<f32>>, tensor<3x8xcomplex<f32>>, tensor<3x4x10xf64>
}

func.func @power(%a: tensor<7xcomplex<f64>>, %b: tensor<7xcomplex<f64>>) -> tensor<7xcomplex<f64>> {
  %0 = stablehlo.power %a, %b : tensor<7xcomplex<f64>>
  return %0 : tensor<7xcomplex<f64>>
}
