// Products of a float32 matrix that is held with weights, by rows or by columns.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernel_block.hpp"

namespace mercer {

// out += M w, or M' w if transposed. What one thread adds to, no other does, so that the number of
// threads changes no bit. Weights by columns are float64.
template <class T>
struct HeldWork {
    const float* matrix;  // (n, p)
    std::size_t n, p, k;
    bool transposed;
    const T* weights;  // (k, p), or (n, k) if transposed
    double* out;       // (n, k), or (k, p) if transposed
};

template <class T>
void held_product(const HeldWork<T>& work, int n_threads) {
    constexpr std::size_t height = 64, width = 1024;  // of a tile: 256 kB
    const KernelTables& loops = kernel_loops();
    const std::size_t n = work.n, p = work.p, k = work.k;
    if (n * p < kWorthThreads) n_threads = 1;
    const std::size_t extent = work.transposed ? p : n, step = work.transposed ? width : height;
    parallel_for((extent + step - 1) / step, n_threads, [&](std::size_t item, int) {
        const std::size_t first = item * step, last = std::min(first + step, extent);
        if constexpr (sizeof(T) == sizeof(double)) {
            if (work.transposed) {
                for (std::size_t i = 0; i < n; i += height)
                    loops.held_columns({work.matrix + i * p + first, p, std::min(height, n - i),
                                        last - first, work.weights + i * k, k, k, work.out + first,
                                        p});
                return;
            }
        }
        for (std::size_t j = 0; j < p; j += width) {
            const HeldTile<T> tile{work.matrix + first * p + j,
                                   p,
                                   last - first,
                                   std::min(width, p - j),
                                   work.weights + j,
                                   p,
                                   k,
                                   work.out + first * k,
                                   k};
            if constexpr (sizeof(T) == sizeof(double))
                loops.held_rows(tile);
            else
                loops.held_rows_f32(tile);
        }
    });
}

// out (count, side, k) += M w for each of `count` square matrices (side, side) and its weights (k,
// side). The number of threads changes no bit.
struct HeldBlocks {
    const float* matrices;
    std::size_t count, side, k;
    const double* weights;
    double* out;
};

inline void held_blocks(const HeldBlocks& work, int n_threads) {
    const std::size_t side = work.side, k = work.k;
    if (work.count * side * side < kWorthThreads) n_threads = 1;
    parallel_for(work.count, n_threads, [&](std::size_t block, int) {
        held_product<double>({work.matrices + block * side * side, side, side, k, false,
                              work.weights + block * k * side, work.out + block * side * k},
                             1);
    });
}

}  // namespace mercer
