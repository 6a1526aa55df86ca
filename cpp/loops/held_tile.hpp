// A float32 matrix that is held times weights. For weights in float64 its numbers are widened in
// registers, so that they come from memory once and nothing is lost; for weights in float32 sums of
// a tile are float32 as well, which takes two thirds of the time where weights are many. Included
// only by files compiled once per level.
#pragma once

#include "gather.hpp"
#include "kernel_loops.hpp"
#include "panels.hpp"

namespace mercer {
namespace {

// What stays in registers: sums of so many rows by so many weights.
#if MERCER_VECTOR_BYTES >= 64
constexpr int kHeldRows = 4, kHeldWeights = 6;
#else
constexpr int kHeldRows = 2, kHeldWeights = 4;
#endif

template <class T>
MERCER_INLINE Vector<T> numbers_of(const float* from, std::size_t count) {
    if constexpr (sizeof(T) == sizeof(float)) {
        return load_some(from, count);
    } else {
        if (count == static_cast<std::size_t>(lanes<double>)) return widen(from);
        float padded[lanes<double>] = {};
        for (std::size_t i = 0; i < count; ++i) padded[i] = from[i];
        return widen(padded);
    }
}

// sums (rows, k) += matrix (rows, depth) * weights (k, depth)', a row of each every step; `ahead`
// fetches the rows that follow, which would otherwise be waited for
template <class T, int rows, int count, bool ahead>
void multiply_few_rows(const HeldTile<T>& tile, std::size_t row, std::size_t first) {
    Vector<T> totals[rows][count] = {};
    const float* const matrix = tile.matrix + row * tile.step;
    const T* const weights = tile.weights + first * tile.weights_step;
    for_each_vector<T>(tile.columns, [&](std::size_t j, std::size_t some) MERCER_INLINE_BODY {
        Vector<T> numbers[rows];
        for (int i = 0; i < rows; ++i)
            numbers[i] = numbers_of<T>(matrix + static_cast<std::size_t>(i) * tile.step + j, some);
        if constexpr (ahead)
            for (int i = rows; i < 2 * rows; ++i)
                prefetch(matrix + static_cast<std::size_t>(i) * tile.step + j, 1);
        for (int c = 0; c < count; ++c) {
            const Vector<T> weight =
                load_some(weights + static_cast<std::size_t>(c) * tile.weights_step + j, some);
            for (int i = 0; i < rows; ++i) totals[i][c] += numbers[i] * weight;
        }
    });
    for (int i = 0; i < rows; ++i)
        for (int c = 0; c < count; ++c) {
            T lane[lanes<T>];
            store(lane, totals[i][c]);
            for (int half = lanes<T> / 2; half > 0; half /= 2)
                for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
            tile.sums[(row + static_cast<std::size_t>(i)) * tile.sums_step + first +
                      static_cast<std::size_t>(c)] += static_cast<double>(lane[0]);
        }
}
template <int count, bool ahead, class T>
void multiply_rows_by(const HeldTile<T>& tile, std::size_t row, std::size_t rows,
                      std::size_t first) {
    if (rows == kHeldRows) return multiply_few_rows<T, kHeldRows, count, ahead>(tile, row, first);
    for (std::size_t i = 0; i < rows; ++i)
        multiply_few_rows<T, 1, count, false>(tile, row + i, first);
}
template <class T>
void multiply_rows(const HeldTile<T>& tile) {
    constexpr std::size_t most = kHeldWeights, height = kHeldRows;
    for (std::size_t row = 0; row < tile.rows; row += height) {
        const std::size_t left = tile.rows - row, rows = left < height ? left : height;
        const bool some_follow = left >= 2 * height;
        std::size_t c = 0;
        for (; c + most <= tile.k; c += most) {
            if (c == 0 && some_follow)
                multiply_rows_by<kHeldWeights, true>(tile, row, rows, c);
            else
                multiply_rows_by<kHeldWeights, false>(tile, row, rows, c);
        }
        for (; c + 2 <= tile.k; c += 2) multiply_rows_by<2, false>(tile, row, rows, c);
        if (c < tile.k) multiply_rows_by<1, false>(tile, row, rows, c);
    }
}

// sums (k, columns) += weights (rows, k)' * matrix (rows, columns): a few rows pass over all sums,
// which stay in a near cache, so that the matrix is read in order.
template <int rows, int count>
void add_few_rows(const HeldTile<double>& tile, std::size_t row, std::size_t first) {
    const float* const matrix = tile.matrix + row * tile.step;
    double* const sums = tile.sums + first * tile.sums_step;
    Vector<double> weights[rows][count];
    for (int i = 0; i < rows; ++i)
        for (int c = 0; c < count; ++c)
            weights[i][c] =
                broadcast(tile.weights[(row + static_cast<std::size_t>(i)) * tile.weights_step +
                                       first + static_cast<std::size_t>(c)]);
    for_each_vector<double>(tile.columns, [&](std::size_t j, std::size_t some) MERCER_INLINE_BODY {
        Vector<double> totals[count];
        for (int c = 0; c < count; ++c)
            totals[c] = load_some(sums + static_cast<std::size_t>(c) * tile.sums_step + j, some);
        for (int i = 0; i < rows; ++i) {
            const Vector<double> numbers =
                numbers_of<double>(matrix + static_cast<std::size_t>(i) * tile.step + j, some);
            for (int c = 0; c < count; ++c) totals[c] += numbers * weights[i][c];
        }
        for (int c = 0; c < count; ++c)
            store_some(sums + static_cast<std::size_t>(c) * tile.sums_step + j, totals[c], some);
    });
}
template <int rows>
void add_rows(const HeldTile<double>& tile, std::size_t row) {
    std::size_t c = 0;
    for (; c + 2 <= tile.k; c += 2) add_few_rows<rows, 2>(tile, row, c);
    if (c < tile.k) add_few_rows<rows, 1>(tile, row, c);
}
void multiply_columns(const HeldTile<double>& tile) {
    constexpr std::size_t most = 2 * kHeldRows;
    std::size_t row = 0;
    for (; row + most <= tile.rows; row += most) add_rows<2 * kHeldRows>(tile, row);
    for (; row < tile.rows; ++row) add_rows<1>(tile, row);
}

}  // namespace
}  // namespace mercer
