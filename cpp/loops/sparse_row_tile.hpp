// Kernels of some CSR rows with many others. Included only by files compiled once per level.
#pragma once

#include "kernel_tile.hpp"

namespace mercer {
namespace {

// sums (kSparseRows): of the products of row j and each of the rows on the left; or, of city-block
// distances, what its numbers add to the magnitudes of these.
template <bool city_block>
MERCER_INLINE void sum_sparse(const CsrRows& rows, const double* dense, std::size_t j,
                              double* sums) {
    constexpr int step = lanes<double>, vectors = static_cast<int>(kSparseRows) / step;
    Vector<double> totals[2][vectors] = {};
    const auto add = [&](std::int64_t e, Vector<double>(&to)[vectors]) MERCER_INLINE_BODY {
        const double* const from = dense + std::size_t{rows.places[e]} * kSparseRows;
        const Vector<double> value = broadcast(rows.values[e]);
        for (int v = 0; v < vectors; ++v) {
            const Vector<double> x = load(from + v * step);
            if constexpr (city_block)
                to[v] += magnitude(x - value) - magnitude(x);
            else
                to[v] += x * value;
        }
    };
    std::int64_t e = rows.starts[j];
    const std::int64_t end = rows.starts[j + 1];
    for (; e + 2 <= end; e += 2) {  // sums of their own, which need not wait for each other
        add(e, totals[0]);
        add(e + 1, totals[1]);
    }
    if (e < end) add(e, totals[0]);
    for (int v = 0; v < vectors; ++v) store(sums + v * step, totals[0][v] + totals[1][v]);
}

// The distance of rows i and j from the differences of their numbers, of which places ascend.
template <bool city_block>
double sparse_distance(const CsrRows& rows, std::size_t i, std::size_t j) {
    std::int64_t a = rows.starts[i], b = rows.starts[j];
    const std::int64_t end_a = rows.starts[i + 1], end_b = rows.starts[j + 1];
    double sum = 0.0;
    while (a < end_a || b < end_b) {
        const bool from_a = b == end_b || (a < end_a && rows.places[a] <= rows.places[b]);
        const bool from_b = a == end_a || (b < end_b && rows.places[b] <= rows.places[a]);
        const double t = (from_a ? rows.values[a] : 0.0) - (from_b ? rows.values[b] : 0.0);
        sum += city_block ? std::fabs(t) : t * t;
        a += from_a;
        b += from_b;
    }
    return sum;
}

// values (kSparseRows, width): the distances of the rows on the left and rows j .. j + count - 1.
template <bool city_block, class Out>
void sparse_panel(const CsrTile<Out>& tile, std::size_t j, std::size_t count, double* values) {
    const CsrRows& rows = tile.csr;
    double sums[kSparseRows];
    for (std::size_t q = 0; q < count; ++q) {
        sum_sparse<city_block>(rows, tile.dense, j + q, sums);
        for (std::size_t r = 0; r < tile.count; ++r) {
            const double size = rows.sizes[tile.rows[r]], both = size + rows.sizes[j + q];
            double distance = city_block ? size + sums[r] : both - 2.0 * sums[r];
            if (!(distance > cancelled<double>(KernelKind::gaussian).share * both))
                distance = sparse_distance<city_block>(rows, tile.rows[r], j + q);
            values[r * kRight<double> + q] = distance;
        }
    }
}

template <class Out>
void sparse_rows(KernelKind kind, const CsrTile<Out>& tile) {
    constexpr std::size_t width = kRight<double>, some = 4;
    static_assert(some <= kLeft && kSparseRows % some == 0);
    double values[kSparseRows * width] = {};
    Out made[kSparseRows * width];
    for (std::size_t j = tile.first; j < tile.last; j += width) {
        const std::size_t count = tile.last - j < width ? tile.last - j : width;
        if (is_direct(kind))
            sparse_panel<true>(tile, j, count, values);
        else
            sparse_panel<false>(tile, j, count, values);
        for (std::size_t r = 0; r < tile.count; r += some) {
            KernelTile<double, Out> part{};
            part.rows = tile.count - r < some ? tile.count - r : some;
            part.columns = count;
            part.parameter = tile.parameter;
            part.out = made + r * width;
            part.out_step = width;
            apply_profile(kind, part, 0, values + r * width);
        }
        for (std::size_t r = 0; r < tile.count; ++r)
            std::memcpy(tile.out[r] + (j - tile.first), made + r * width, count * sizeof(Out));
    }
}

}  // namespace
}  // namespace mercer
