// How far apart weighted pairs of rows are along every input, in all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

// sums[a] += sum_ij weights[i][j] |x_a[i] - x_a[j]| for symmetric weights (n, n) and columns x_a of
// length n. Every row is summed up by one thread, and rows are joined in their order.
template <class T>
void distance_sums(const T* weights, const T* columns, std::size_t n, std::size_t d, double* sums,
                   int n_threads) {
    constexpr std::size_t together = 32;
    const std::size_t n_pieces = (n + together - 1) / together;
    std::vector<double> of_pieces(n_pieces * d, 0.0);
    const auto sum = distance_sum_loop<T>();
    parallel_for(n_pieces, n_threads, [&](std::size_t piece, int) {
        double* const own = of_pieces.data() + piece * d;
        const std::size_t last = std::min(n, (piece + 1) * together);
        for (std::size_t i = piece * together; i < last; ++i)
            for (std::size_t a = 0; a < d; ++a) {
                const T* const x = columns + a * n;
                own[a] += sum(weights + i * n + i + 1, x + i + 1, x[i], n - i - 1);
            }
    });
    for (std::size_t piece = 0; piece < n_pieces; ++piece)
        for (std::size_t a = 0; a < d; ++a) sums[a] += 2.0 * of_pieces[piece * d + a];
}

}  // namespace mercer
