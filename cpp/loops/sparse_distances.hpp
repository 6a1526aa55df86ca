// City-block distances of rows most of whose numbers are the usual ones, see nonzeros.hpp. Included
// only by files compiled once per level.
#pragma once

#include <cstdint>

#include "kernel_loops.hpp"
#include "nonzeros.hpp"
#include "panels.hpp"

namespace mercer {
namespace {

// Sum of |x - y| * scale.
template <class In>
double scaled_magnitude(const In* x, const In* y, const double* scale, std::size_t d) {
    double sum = 0.0;
    for (std::size_t k = 0; k < d; ++k)
        sum += std::fabs(static_cast<double>(x[k]) - static_cast<double>(y[k])) * scale[k];
    return sum;
}

// sums += the parts of the numbers of right rows that lie between 0 and those of a left row
template <bool above, class T>
MERCER_INLINE void add_shared(const T* right, const std::uint32_t* places, const T* values,
                              std::size_t count, Vector<T> (&sums)[2][kRightVectors]) {
    const Vector<T> zero = broadcast(T(0));
    const auto add = [&](std::size_t i, Vector<T>(&to)[kRightVectors]) MERCER_INLINE_BODY {
        const T* const from = right + static_cast<std::size_t>(places[i]) * kRight<T>;
        const Vector<T> value = broadcast(values[i]);
        for (int v = 0; v < kRightVectors; ++v) {
            const Vector<T> y = load(from + v * lanes<T>);
            if constexpr (above)
                to[v] += larger(zero, smaller(y, value));
            else
                to[v] -= smaller(zero, larger(y, value));
        }
    };
    std::size_t i = 0;
    for (; i + 2 <= count; i += 2) {  // sums of their own, which need not wait for each other
        add(i, sums[0]);
        add(i + 1, sums[1]);
    }
    if (i < count) add(i, sums[0]);
}

// values (kLeft, kRight): the distances of the left rows from `first` on.
template <class T, class In>
void sparse_distances(const KernelTile<T, In>& tile, std::size_t first, T* values) {
    constexpr T large = static_cast<T>(kLargeSum);
    const std::size_t last = tile.rows - first < kLeft ? tile.rows : first + kLeft;
    for (std::size_t i = first; i < last; ++i, values += kRight<T>) {
        const std::uint32_t *const starts = tile.starts + 2 * i, *const places = tile.places;
        Vector<T> shared[2][kRightVectors] = {};
        add_shared<true>(tile.right, places + starts[0], tile.values + starts[0],
                         starts[1] - starts[0], shared);
        add_shared<false>(tile.right, places + starts[1], tile.values + starts[1],
                          starts[2] - starts[1], shared);
        const T size = tile.left_squares[i];
        const T least =
            size > large ? static_cast<T>(std::log(static_cast<double>(size / large))) : T(-1);
        Vector<T> nearest = broadcast(T(1));
        for (int v = 0; v < kRightVectors; ++v) {
            const Vector<T> both = shared[0][v] + shared[1][v];
            const Vector<T> sizes = broadcast(size) + load(tile.right_squares + v * lanes<T>);
            const Vector<T> sum = larger(sizes - both - both, broadcast(T(0)));
            nearest = smaller(nearest, sum - broadcast(least));
            store(values + v * lanes<T>, sum);
        }
        if (!any_not_positive<T>(nearest)) continue;
        for (std::size_t j = 0; j < tile.columns; ++j)
            if (values[j] <= least)
                values[j] = static_cast<T>(scaled_magnitude(
                    tile.x + i * tile.depth, tile.y + j * tile.depth, tile.scale, tile.depth));
    }
}

}  // namespace
}  // namespace mercer
