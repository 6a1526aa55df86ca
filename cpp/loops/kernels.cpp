// Loops of kernel matrices, compiled once per instruction-set level with contraction of a*b+c
// allowed, into a table and nothing else: the only symbol of this file.
#include "fixed_tile.hpp"
#include "held_tile.hpp"
#include "kernel_tile.hpp"
#include "laplacian_tile.hpp"
#include "product_tile.hpp"
#include "row_tile.hpp"
#include "sparse_row_tile.hpp"

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

template <class T, class In>
constexpr KernelLoops<T, In> kernels = {kLeft, kRight<T>, pack_raw<T, In>, pack_centred<T, In>,
                                        kernel_tile<T, In>};

}  // namespace

extern const KernelTables MERCER_JOIN(kernels_loops_, MERCER_LEVEL);
const KernelTables MERCER_JOIN(kernels_loops_, MERCER_LEVEL) = {
    kernels<float, float>,
    kernels<double, float>,
    kernels<double, double>,
    scaled_square<float, double>,
    scaled_square<double, double>,
    products<float, float>,
    products<float, double>,
    products<double, double>,
    {kLeft, kRight<double>, pack_exponentials, laplacian_tile},
    fixed_loops<float>,
    fixed_loops<double>,
    multiply_rows<double>,
    multiply_rows<float>,
    multiply_columns,
    multiply_row<float, float>,
    multiply_row<double, float>,
    multiply_row<double, double>,
    sparse_rows<float>,
    sparse_rows<double>};

}  // namespace mercer
