// The entries of a weighted binned matrix, row after row within a grid.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <type_traits>
#include <vector>

#include "isa.hpp"
#include "parallel.hpp"
#include "points.hpp"
#include "weighted_loops.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const WeightedLoops weighted_loops_v2, weighted_loops_v3, weighted_loops_v4;
inline const WeightedLoops* const weighted_tables[] = {&weighted_loops_v2, &weighted_loops_v3,
                                                       &weighted_loops_v4};
#else
extern const WeightedLoops weighted_loops_baseline;
inline const WeightedLoops* const weighted_tables[] = {&weighted_loops_baseline};
#endif

inline const WeightedLoops& weighted_loops() {
    static const WeightedLoops& chosen = *weighted_tables[choose_level()];
    return chosen;
}

// `taper` in (0, 1]. The sine is summed up by its series, which ends below 1e-11.
inline Window make_window(double taper) {
    Window window{1.0 / taper, {}};
    double term = std::numbers::pi / std::sqrt(1.0 - 0.5 * taper);
    for (int k = 0; k < 8; ++k) {
        window.sine[k] = term;
        term *= -std::numbers::pi * std::numbers::pi / ((2 * k + 2) * (2 * k + 3));
    }
    return window;
}

// out (count, n) = scale times the weight of every row in every grid.
template <class T>
void weigh(const DensePoints<T>& points, const Grids& grids, const Window& window, double scale,
           float* out, int n_threads) {
    if (points.n * grids.count * grids.d < 20000) n_threads = 1;
    constexpr std::size_t grid_block = 32;  // grids that share a transposed tile
    const std::size_t n_tiles = (points.n + kWeighedRows - 1) / kWeighedRows, d = points.d;
    const std::size_t n_blocks = (grids.count + grid_block - 1) / grid_block;
    std::vector<std::vector<double>> room(static_cast<std::size_t>(std::max(n_threads, 1)));
    parallel_for(n_tiles * n_blocks, n_threads, [&](std::size_t item, int thread) {
        const std::size_t first = item / n_blocks * kWeighedRows;
        const std::size_t rows = std::min(kWeighedRows, points.n - first);
        const std::size_t start = item % n_blocks * grid_block;
        std::vector<double>& tile = room[static_cast<std::size_t>(thread)];
        tile.resize(d * kWeighedRows);
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < d; ++j)
                tile[j * kWeighedRows + i] =
                    static_cast<double>(points.numbers[(first + i) * d + j]);
        for (std::size_t g = start; g < std::min(start + grid_block, grids.count); ++g)
            weighted_loops().tile(tile.data(), rows, d, grids.inverse_widths + g * d,
                                  grids.shifts + g * d, window, scale, out + g * points.n + first);
    });
}

template <class T, class I>
constexpr WeighSparse<T, I>* weigh_sparse_loop() {
    const WeightedLoops& loops = weighted_loops();
    if constexpr (std::is_same_v<T, float>) {
        if constexpr (sizeof(I) == 4)
            return loops.sparse_f32_32;
        else
            return loops.sparse_f32_64;
    } else {
        if constexpr (sizeof(I) == 4)
            return loops.sparse_f64_32;
        else
            return loops.sparse_f64_64;
    }
}

template <class T, class I>
void weigh(const SparsePoints<T, I>& points, const Grids& grids, const Window& window, double scale,
           float* out, int n_threads) {
    constexpr std::size_t run = 2048;  // rows whose entries are kept until they are copied
    const std::size_t n_groups = (grids.count + kWeighedGrids - 1) / kWeighedGrids;
    const auto loop = weigh_sparse_loop<T, I>();
    parallel_for(n_groups, n_threads, [&](std::size_t item, int) {
        const std::size_t first_grid = item * kWeighedGrids;
        const std::size_t count = std::min(kWeighedGrids, grids.count - first_grid);
        std::vector<WindowGroup> groups(grids.d);
        for (std::size_t lane = 0; lane < kWeighedGrids; ++lane) {
            const std::size_t at = (first_grid + std::min(lane, count - 1)) * grids.d;
            for (std::size_t j = 0; j < grids.d; ++j) {
                groups[j].inverse_width[lane] = grids.inverse_widths[at + j];
                groups[j].shift[lane] = grids.shifts[at + j];
            }
        }
        double products[kWeighedGrids];
        weighted_loops().zeros(groups.data(), grids.d, window, scale, products);
        std::vector<float> entries(kWeighedGrids * run);
        for (std::size_t first = 0; first < points.n; first += run) {
            const std::size_t rows = std::min(run, points.n - first);
            loop(points.values, points.inputs, points.row_starts + first, rows, groups.data(),
                 window, products, entries.data(), run);
            for (std::size_t g = 0; g < count; ++g)
                std::copy_n(entries.data() + g * run, rows,
                            out + (first_grid + g) * points.n + first);
        }
    });
}

}  // namespace mercer
