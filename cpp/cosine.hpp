// Random Fourier features: cosines of X frequencies', made in blocks that never leave the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

template <class T>
struct Cosines {
    const T* points;       // (n, d)
    const T* frequencies;  // (m, d)
    const T* phases;       // (m), or null for pairs of cosine and sine
    std::size_t n, d, m;
    T scale;
    T* out;  // (n, m), or (n, 2 m) for pairs

    std::size_t out_step() const { return phases ? m : 2 * m; }
};

template <class T>
void cosine_block(const Cosines<T>& work, int n_threads) {
    const CosineLoops<T>& loops = cosine_loops<T>();
    const std::size_t n = work.n, d = work.d, m = work.m;
    if (n == 0 || m == 0) return;
    const std::size_t left = loops.left_width, right = loops.right_width;
    const std::size_t n_panels = (m + right - 1) / right;
    if (n * m * (d + 10) < 200000) n_threads = 1;
    // Angles in half-turns from the start: their whole part is then taken off without rounding.
    constexpr double half_turns = 0.318309886183790671538;
    std::vector<T> frequencies(n_panels * right * d), phases(work.phases ? n_panels * right : 0);
    parallel_for(n_panels, n_threads, [&](std::size_t p, int) {
        const std::size_t count = std::min(right, m - p * right);
        loops.pack_panel(work.frequencies + p * right * d, count, d, right, half_turns,
                         frequencies.data() + p * right * d);
        if (work.phases)
            loops.pack_panel(work.phases + p * right, count, 1, right, half_turns,
                             phases.data() + p * right);
    });
    // While the frequencies stay in a near cache, few rows at a time write their results in order.
    const std::size_t strip = frequencies.size() * sizeof(T) <= kNearBytes ? left : kCosineRows;
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    std::vector<std::vector<T>> packed(threads, std::vector<T>(kCosineRows * d));
    parallel_for((n + kCosineRows - 1) / kCosineRows, n_threads, [&](std::size_t b, int thread) {
        const std::size_t first = b * kCosineRows, rows = std::min(kCosineRows, n - first);
        T* points = packed[static_cast<std::size_t>(thread)].data();
        for (std::size_t i = 0; i < rows; i += left)
            loops.pack_panel(work.points + (first + i) * d, std::min(left, rows - i), d, left, 1.0,
                             points + i * d);
        for (std::size_t start = 0; start < rows; start += strip)
            for (std::size_t q = 0; q < m; q += right) {
                const std::size_t i = first + start, at = i * work.out_step();
                loops.tile({points + start * d, frequencies.data() + q * d,
                            work.phases ? phases.data() + q : nullptr, d,
                            std::min(strip, rows - start), std::min(right, m - q), work.scale,
                            work.out + at + (work.phases ? q : 2 * q), work.out_step()});
            }
    });
}

// values (n, m) = scale * cos(values + phases)
template <class T>
void cosine_inplace(T* values, const T* phases, std::size_t n, std::size_t m, T scale,
                    int n_threads) {
    if (n * m < 20000) n_threads = 1;
    constexpr std::size_t block = 16;
    parallel_for((n + block - 1) / block, n_threads, [&](std::size_t b, int) {
        for (std::size_t i = b * block; i < std::min((b + 1) * block, n); ++i)
            cosine_loops<T>().row(values + i * m, phases, m, scale, values + i * m);
    });
}

// out (n, 2 m): scale * cosine and sine of arguments (n, m), side by side
template <class T>
void cosine_pairs_from(const T* arguments, std::size_t n, std::size_t m, T scale, T* out,
                       int n_threads) {
    if (n * m < 20000) n_threads = 1;
    constexpr std::size_t block = 16;
    parallel_for((n + block - 1) / block, n_threads, [&](std::size_t b, int) {
        for (std::size_t i = b * block; i < std::min((b + 1) * block, n); ++i)
            cosine_loops<T>().pairs_row(arguments + i * m, m, scale, out + 2 * i * m);
    });
}

}  // namespace mercer
