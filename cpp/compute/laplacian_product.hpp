// Products of Laplacian kernels with weights, from exponentials of the rows: no tile is held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernel_block.hpp"
#include "parallel.hpp"

namespace mercer {

// Whether exponentials of the rows serve: of short rows they keep their digits, as their error is
// that of their exponents, and stay in the range of numbers. A sum of d magnitudes is at most the
// root of d times the sum of their squares. With many inputs they take no less time. Those of
// float32 would round otherwise than products of few rows do, and predictions show that.
inline bool suits_exponentials(const KernelWork<double>& work, int n_threads) {
    constexpr double longest = 64;
    constexpr std::size_t most_inputs = 128, fewest_rows = 32;
    if (work.kind != KernelKind::laplacian || work.usual || work.d > most_inputs ||
        std::min(work.n, work.m) < fewest_rows)
        return false;
    const auto are_short = [&](const double* rows, std::size_t n) {
        const double square = lengths_of(rows, n, work, 0.0, n_threads).longest;
        return square * static_cast<double>(work.d) <= longest * longest;
    };
    return are_short(work.y, work.m) && are_short(work.x, work.n);
}

// sums (n, k) += k(x, y) * weights (m, k). Those of a point depend on no other points, and on no
// number of threads.
inline void add_laplacians(const KernelWork<double>& work, const double* weights, std::size_t k,
                           double* sums, int n_threads) {
    constexpr std::size_t item = 4 * kKernelRows;  // points whose panels stay in a near cache
    const LaplacianLoops& loops = kernel_loops().laplacian;
    const std::size_t n = work.n, m = work.m, d = work.d;
    const std::size_t left = loops.left_width, right = loops.right_width;
    const std::size_t blocks = (m + kKernelRows - 1) / kKernelRows;
    std::vector<double> landmarks(blocks * kKernelRows * d), scaled(blocks * kKernelRows * k);
    const auto pack = [&](const double* rows, std::size_t first, std::size_t last,
                          std::size_t width, double* panels, double* inverses) {
        for (std::size_t i = first; i < last; i += width, panels += width * d, inverses += width)
            loops.pack(rows + i * d, std::min(width, last - i), d, width, work.centre, work.scale,
                       panels, inverses);
    };
    parallel_for(blocks, n_threads, [&](std::size_t b, int) {
        const std::size_t first = b * kKernelRows, last = std::min(first + kKernelRows, m);
        double inverses[kKernelRows];
        pack(work.y, first, last, left, landmarks.data() + first * d, inverses);
        for (std::size_t i = first; i < last; ++i)
            for (std::size_t c = 0; c < k; ++c)
                scaled[i * k + c] = weights[i * k + c] * inverses[i - first];
    });
    struct Room {
        std::vector<double> points, inverses, sums;  // the last (panels, k, right)
    };
    const std::size_t most = (std::min(item, n) + right - 1) / right * right;
    std::vector<Room> rooms(static_cast<std::size_t>(std::max(n_threads, 1)),
                            {std::vector<double>(most * d), std::vector<double>(most), {}});
    parallel_for((n + item - 1) / item, n_threads, [&](std::size_t number, int thread) {
        const std::size_t first = number * item, last = std::min(first + item, n);
        Room& room = rooms[static_cast<std::size_t>(thread)];
        pack(work.x, first, last, right, room.points.data(), room.inverses.data());
        room.sums.assign(most * k, 0.0);
        for (std::size_t i = 0; i < m; i += kKernelRows)
            for (std::size_t j = 0; j < last - first; j += right)
                loops.tile({landmarks.data() + i * d, room.points.data() + j * d, d,
                            std::min(kKernelRows, m - i), k, scaled.data() + i * k,
                            room.sums.data() + j * k});
        for (std::size_t j = 0; j < last - first; ++j)
            for (std::size_t c = 0; c < k; ++c)
                sums[(first + j) * k + c] +=
                    room.inverses[j] * room.sums[j / right * right * k + c * right + j % right];
    });
}

}  // namespace mercer
