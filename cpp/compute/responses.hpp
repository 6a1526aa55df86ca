// Products with the binned matrix of rows whose codes are nowhere held.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "binning.hpp"
#include "products.hpp"

namespace mercer {

// `count` of the rows, from `first` on.
template <class T>
DensePoints<T> part_of(const DensePoints<T>& points, std::size_t first, std::size_t count) {
    return {points.numbers + first * points.d, count, points.d};
}
template <class T, class I>
SparsePoints<T, I> part_of(const SparsePoints<T, I>& points, std::size_t first, std::size_t count) {
    return {points.values, points.inputs, points.row_starts + first, count, points.d};
}

// out (n, k) += Z w over grids from `first_grid` on, a multiple of kPassGrids, with the bits that
// codes and matvec give. The dictionaries and `offsets` are those of all grids, w (D, k) too. Each
// thread has its own rows: the codes of a few grids and rows stay in its nearest cache. Returns the
// number of (row, grid) pairs whose bin is unknown.
template <class Points, class T = typename Points::Number>
std::size_t add_responses(std::span<const Dictionary> dictionaries, const std::int64_t* offsets,
                          const Points& points, const Grids& grids, std::size_t first_grid,
                          const T* w, std::size_t k, T* out, int n_threads) {
    using Code = std::uint32_t;
    const std::size_t stop = first_grid + grids.count;
    std::atomic<std::size_t> unknown{0};
    if (points.n * grids.count * std::max<std::size_t>(k, 1) < 50000) n_threads = 1;
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    on_threads(static_cast<int>(threads), [&](int thread) {
        const auto me = static_cast<std::size_t>(thread);
        const std::size_t first = points.n * me / threads;
        const std::size_t count = points.n * (me + 1) / threads - first;
        std::vector<Code> codes(kPassGrids * std::min(count, kRunRows));
        const std::vector<T> zeros(k);
        std::size_t n_unknown = 0, n_missing = 0;
        const auto consume = [&](const KeyRun& run) {
            const std::size_t grid = first_grid + run.grid, place = grid % kPassGrids;
            const std::size_t rows = run.keys.size();
            n_missing += dictionaries[grid].lookup(run.keys, codes.data() + place * rows);
            if (place + 1 < kPassGrids && grid + 1 < stop) return;
            const BinnedMatrix Z{codes.data(), sizeof(Code),  offsets,     dictionaries.size(),
                                 rows,         n_missing > 0, grid - place};
            add_matvec(Z, grid - place, grid + 1, 0, rows, w, k, zeros.data(),
                       out + (first + run.first_row) * k);
            n_unknown += n_missing;
            n_missing = 0;
        };
        for_each_run(part_of(points, first, count), grids, 1, KeyConsumer(consume));
        unknown += n_unknown;
    });
    return unknown;
}

}  // namespace mercer
