// Sums of weighted absolute differences. Included only by files compiled once per level.
#pragma once

#include "loops.hpp"
#include "simd.hpp"

namespace mercer {
namespace {

// sum_j weights[j] |at - x[j]| over n numbers
template <class T>
T distance_sum(const T* weights, const T* x, T at, std::size_t n) {
    Vector<T> sums[2] = {};
    const Vector<T> centre = broadcast(at);
    std::size_t j = 0;
    for (; j + 2 * lanes<T> <= n; j += 2 * lanes<T>)
        for (int v = 0; v < 2; ++v) {
            const std::size_t k = j + v * lanes<T>;
            sums[v] += load(weights + k) * magnitude(centre - load(x + k));
        }
    T lane[lanes<T>], sum = 0;
    store(lane, sums[0] + sums[1]);
    for (T part : lane) sum += part;
    for (; j < n; ++j) sum += weights[j] * (at < x[j] ? x[j] - at : at - x[j]);
    return sum;
}

}  // namespace
}  // namespace mercer
