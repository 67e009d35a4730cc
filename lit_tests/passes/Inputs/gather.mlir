#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i) -> (i)>
func.func @main(%x: tensor<128x6xf32>, %labels: tensor<128xindex>) -> tensor<128xf32> {
  %whole = tensor.empty() : tensor<128x6xf32>
  %rows = tensor.empty() : tensor<128xf32>
  %powers = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<128x6xf32>) outs(%whole : tensor<128x6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %e = math.exp %p : f32
    linalg.yield %e : f32
  } -> tensor<128x6xf32>
  %y = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]}
      ins(%labels : tensor<128xindex>) outs(%rows : tensor<128xf32>) {
  ^bb0(%label: index, %o: f32):
    %i = linalg.index 0 : index
    %found = tensor.extract %powers[%i, %label] : tensor<128x6xf32>
    linalg.yield %found : f32
  } -> tensor<128xf32>
  return %y : tensor<128xf32>
}
