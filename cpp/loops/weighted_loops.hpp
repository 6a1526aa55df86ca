// The hot loops of weighted binning as plain functions on plain memory, a table per instruction-set
// level as in loops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "widths.hpp"

namespace mercer {

// An entry of a weighted binned matrix is the product over inputs of g(s), s in [0, 1) being the
// position within the bin: v - floor(v) for v = x * inverse_width - shift in float64, clamped as
// the code is. g rises as a sine over the first half of the `taper` and falls so over the last
// half; in between it is constant; the integral of its square is 1.
struct Window {
    double per_taper;  // 1 / taper
    double sine[8];    // g = sum of sine[k] u^(2k + 1), u the way into the ramp, at most 1/2
};

constexpr std::size_t kWeighedRows = 256;  // rows of a tile
constexpr std::size_t kWeighedGrids = 8;   // grids that are side by side for a sparse row

// One input in several grids; at_zero: one over the weight of x = 0.
struct alignas(64) WindowGroup {
    double inverse_width[kWeighedGrids], shift[kWeighedGrids], at_zero[kWeighedGrids];
};

// The weights of `rows` samples of a tile: kWeighedRows numbers per input.
using WeighTile = void(const double* tile, std::size_t rows, std::size_t d,
                       const double* inverse_widths, const double* shifts, const Window& window,
                       double scale, float* out);

// Sets at_zero from the other members; `products` receives scale times the weights of the zero row.
using WeighZeros = void(WindowGroup* groups, std::size_t d, const Window& window, double scale,
                        double* products);

// The weights of sparse rows in kWeighedGrids grids, those of one grid `stride` from the next's.
template <class T, class Index>
using WeighSparse = void(const T* values, const Index* inputs, const Index* row_starts,
                         std::size_t n_rows, const WindowGroup* groups, const Window& window,
                         const double* products, float* out, std::size_t stride);

// One pass over the entries of a few grids. A code of n_bins or more stands for no entry.
constexpr std::size_t kWeightedGrids = 4;
struct WeightedPass {
    std::size_t n_grids;  // 4 or 1
    std::size_t width;
    const void* codes[kWeightedGrids];  // of the type that the loop is of
    const float* values[kWeightedGrids];
    std::size_t n_bins[kWeightedGrids];  // at least 1
};

// sums[i * step + q] += value * table[code * step + q] over the grids of the pass
template <class T>
using WeightedGather = void(const WeightedPass& pass, const T* const* tables,
                            std::size_t table_step, std::size_t rows, T* sums, std::size_t step);
// table[code * width + q] += value^power * numbers[i * step + q], in float64; power 0, 1 or 2
template <class T>
using WeightedScatter = void(const WeightedPass& pass, double* const* tables, std::size_t rows,
                             const T* numbers, std::size_t step, int power);

struct WeightedSumLoops {
    WeightedGather<float>* gather_f32;
    WeightedGather<double>* gather_f64;
    WeightedScatter<float>* scatter_f32;
    WeightedScatter<double>* scatter_f64;
};

struct WeightedLoops {
    WeighTile* tile;
    WeighZeros* zeros;
    WeighSparse<float, std::int32_t>* sparse_f32_32;
    WeighSparse<float, std::int64_t>* sparse_f32_64;
    WeighSparse<double, std::int32_t>* sparse_f64_32;
    WeighSparse<double, std::int64_t>* sparse_f64_64;
    WeightedSumLoops u8, u16, u32;  // of codes of these types
};

}  // namespace mercer
