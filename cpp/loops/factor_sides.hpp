// What a Cholesky factor is made for: solutions in float32, and products of the matrix in float64,
// which say how wrong they are. Included only by files compiled once per level.
#pragma once

#include "factor_tile.hpp"

namespace mercer {
namespace {

// Right-hand sides whose sums by a strip stay in registers.
#if defined(__AVX512F__)
constexpr int kSides = 4;
#else
constexpr int kSides = 2;
#endif

template <class T>
MERCER_INLINE T sum_of_lanes(const T* numbers) {
    T lane[lanes<T>];
    store(lane, load(numbers));
    for (int half = lanes<T> / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
    return lane[0];
}

// sides (count) become U'^-1 of them
template <int count>
void solve_forward(const float* factor, std::size_t strips, float* sides, std::size_t step) {
    const auto side = [&](int c)
                          MERCER_INLINE_BODY { return sides + static_cast<std::size_t>(c) * step; };
    for (std::size_t s = 0; s < strips; ++s) {
        const float* row = row_of(factor, 0, s);
        const std::size_t first = s * kStrip;
        // Of even and of odd rows, so that no sum waits for the one before it.
        Vector<float> sums[2][count][kStripVectors] = {};
        for (std::size_t l = 0; l < first; l += 2, row += 2 * kStrip)
            for (std::size_t odd = 0; odd < 2; ++odd)
                for (int c = 0; c < count; ++c) {
                    const Vector<float> x = broadcast(side(c)[l + odd]);
                    for (int v = 0; v < kStripVectors; ++v)
                        sums[odd][c][v] += x * load(row + odd * kStrip + v * lanes<float>);
                }
        for (int c = 0; c < count; ++c)
            for (int v = 0; v < kStripVectors; ++v) {
                float* const at = side(c) + first + v * lanes<float>;
                store(at, load(at) - (sums[0][c][v] + sums[1][c][v]));
            }
        for (std::size_t i = 0; i < kStrip; ++i, row += kStrip)
            for (int c = 0; c < count; ++c) {
                float* const at = side(c) + first;
                const float x = at[i] * row[i];
                for (int v = 0; v < kStripVectors; ++v)
                    store(at + v * lanes<float>, load(at + v * lanes<float>) -
                                                     broadcast(x) * load(row + v * lanes<float>));
                at[i] = x;
            }
    }
}

// sides (count) become U^-1 of them. What a strip takes from the rows above it is kept lane by
// lane, and the lanes are joined once.
template <int count>
void solve_backward(const float* factor, std::size_t strips, float* sides, std::size_t step,
                    float* room) {
    constexpr std::size_t wide = lanes<float>, of_row = count * wide;
    for (std::size_t k = 0; k < strips * kStrip * of_row; k += wide)
        store(room + k, broadcast(0.0f));
    for (std::size_t s = strips; s-- > 0;) {
        const std::size_t first = s * kStrip;
        float found[count][kStrip] = {};
        const auto add_row = [&](const float* row, float* sums) MERCER_INLINE_BODY {
            for (int c = 0; c < count; ++c) {
                float* const at = sums + static_cast<std::size_t>(c) * wide;
                Vector<float> sum = load(at);
                for (std::size_t k = 0; k < kStrip; k += wide)
                    sum += load(row + k) * load(found[c] + k);
                store(at, sum);
            }
        };
        for (std::size_t i = kStrip; i-- > 0;) {
            const float* const row = row_of(factor, first + i, s);
            float* const sums = room + (first + i) * of_row;
            add_row(row, sums);
            for (int c = 0; c < count; ++c) {
                float& x = sides[static_cast<std::size_t>(c) * step + first + i];
                x = (x - sum_of_lanes(sums + static_cast<std::size_t>(c) * wide)) * row[i];
                found[c][i] = x;
            }
        }
        for (std::size_t l = 0; l < first; ++l) add_row(row_of(factor, l, s), room + l * of_row);
    }
}

// Calls f(Constant<count>, first) for right-hand sides that are taken together.
template <class F>
MERCER_INLINE void for_sides(std::size_t count, F f) {
    std::size_t c = 0;
    for (; c + kSides <= count; c += kSides) f(Constant<kSides>(), c);
    if constexpr (kSides > 2)
        for (; c + 2 <= count; c += 2) f(Constant<2>(), c);
    for (; c < count; ++c) f(Constant<1>(), c);
}

void solve(const float* factor, std::size_t strips, std::size_t count, float* sides, void* room) {
    const std::size_t step = strips * kStrip;
    for_sides(count, [&](auto some, std::size_t c) MERCER_INLINE_BODY {
        solve_forward<some()>(factor, strips, sides + c * step, step);
        solve_backward<some()>(factor, strips, sides + c * step, step, static_cast<float*>(room));
    });
}

// ---- products -----------------------------------------------------------------------------------

MERCER_INLINE Vector<double> numbers_at(const float* p, double) {
    return widen(p);
}
MERCER_INLINE Vector<float> numbers_at(const float* p, float) {
    return load(p);
}

// sums -= A * sides. Every number of a strip is read once and counts for its row and its column.
template <int count, class T>
void subtract_symmetric(const float* matrix, std::size_t strips, const T* sides, T* sums,
                        std::size_t step, T* room) {
    constexpr std::size_t wide = lanes<T>, of_row = count * wide;
    constexpr int vectors = kStrip / wide;
    for (std::size_t k = 0; k < strips * kStrip * of_row; k += wide)
        store(room + k, broadcast(T{0}));
    for (std::size_t s = 0; s < strips; ++s) {
        const std::size_t first = s * kStrip;
        const float* row = row_of(matrix, 0, s);
        Vector<T> columns[count][vectors] = {};
        const auto add_row = [&](std::size_t l, auto with_columns) MERCER_INLINE_BODY {
            Vector<T> numbers[vectors];
            for (int v = 0; v < vectors; ++v)
                numbers[v] = numbers_at(row + static_cast<std::size_t>(v) * wide, T{});
            for (int c = 0; c < count; ++c) {
                const T* const side = sides + static_cast<std::size_t>(c) * step;
                T* const at = room + l * of_row + static_cast<std::size_t>(c) * wide;
                Vector<T> sum = load(at);
                for (int v = 0; v < vectors; ++v)
                    sum += numbers[v] * load(side + first + static_cast<std::size_t>(v) * wide);
                store(at, sum);
                if constexpr (with_columns() != 0) {
                    const Vector<T> x = broadcast(side[l]);
                    for (int v = 0; v < vectors; ++v) columns[c][v] += x * numbers[v];
                }
            }
            row += kStrip;
        };
        for (std::size_t l = 0; l < first; ++l) add_row(l, Constant<1>());
        for (int c = 0; c < count; ++c)
            for (int v = 0; v < vectors; ++v) {
                T* const at = sums + static_cast<std::size_t>(c) * step + first +
                              static_cast<std::size_t>(v) * wide;
                store(at, load(at) - columns[c][v]);
            }
        for (std::size_t l = first; l < first + kStrip; ++l) add_row(l, Constant<0>());
    }
    for (std::size_t l = 0; l < strips * kStrip; ++l)
        for (int c = 0; c < count; ++c)
            sums[static_cast<std::size_t>(c) * step + l] -=
                sum_of_lanes(room + l * of_row + static_cast<std::size_t>(c) * wide);
}

template <class T>
void subtract(const float* matrix, std::size_t strips, std::size_t count, const T* sides, T* sums,
              void* room) {
    const std::size_t step = strips * kStrip;
    for_sides(count, [&](auto some, std::size_t c) MERCER_INLINE_BODY {
        subtract_symmetric<some(), T>(matrix, strips, sides + c * step, sums + c * step, step,
                                      static_cast<T*>(room));
    });
}

}  // namespace
}  // namespace mercer
