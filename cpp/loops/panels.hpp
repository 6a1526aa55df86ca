// Blocks of sums over inputs, such as inner products, of rows packed in panels: the sums of kLeft
// by kRight pairs of rows stay in registers. Included only by files compiled once per level.
#pragma once

#include "simd.hpp"

namespace mercer {
namespace {

// Rows of the left panel; accumulators take most of the registers.
#if defined(__AVX512F__)
constexpr int kLeft = 12;
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int kLeft = 6;
#else
constexpr int kLeft = 4;
#endif
constexpr int kRightVectors = 2;
template <class T>
constexpr int kRight = kRightVectors * lanes<T>;

template <class T>
using PanelSums = Vector<T>[kLeft][kRightVectors];

// sums = step(sums, left, right, k) for every step k of two panels
template <class T, class Step>
MERCER_INLINE void accumulate(const T* left, const T* right, std::size_t depth, PanelSums<T>& sums,
                              Step step) {
    for (std::size_t k = 0; k < depth; ++k) {
        Vector<T> r[kRightVectors];
        for (int v = 0; v < kRightVectors; ++v) r[v] = load(right + v * lanes<T>);
        for (int i = 0; i < kLeft; ++i)
            for (int v = 0; v < kRightVectors; ++v)
                sums[i][v] = step(sums[i][v], broadcast(left[i]), r[v], k);
        left += kLeft;
        right += kRight<T>;
    }
}

// The depth is cut into equal pieces, short enough for the nearest cache and for accurate sums.
template <std::size_t longest, class F>
MERCER_INLINE void for_each_piece(std::size_t depth, F f) {
    const std::size_t pieces = depth / longest + 1;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        const std::size_t first = depth * piece / pieces;
        f(first, depth * (piece + 1) / pieces - first, piece == 0, piece + 1 == pieces);
    }
}

// Turns `count` rows of length d, count at most `width`, into d groups of `width` numbers f(x, k).
template <class In, class T, class F>
MERCER_INLINE void pack(const In* rows, std::size_t count, std::size_t d, std::size_t width,
                        T* panel, F f) {
    for (std::size_t k = 0; k < d; ++k) {
        for (std::size_t i = 0; i < count; ++i) panel[i] = f(rows[i * d + k], k);
        for (std::size_t i = count; i < width; ++i) panel[i] = T(0);
        panel += width;
    }
}

// Calls f(offset, count) for pieces of at most one vector.
template <class T, class F>
MERCER_INLINE void for_each_vector(std::size_t n, F f) {
    constexpr std::size_t step = lanes<T>;
    std::size_t i = 0;
    for (; i + step <= n; i += step) f(i, step);
    if (i < n) f(i, n - i);
}
template <class T>
MERCER_INLINE Vector<T> load_some(const T* from, std::size_t count) {
    if (count == static_cast<std::size_t>(lanes<T>)) return load(from);
    Vector<T> v = broadcast(T(0));
    std::memcpy(&v, from, count * sizeof(T));
    return v;
}
template <class T>
MERCER_INLINE void store_some(T* to, Vector<T> v, std::size_t count) {
    if (count == static_cast<std::size_t>(lanes<T>))
        store(to, v);
    else
        std::memcpy(to, &v, count * sizeof(T));
}

}  // namespace
}  // namespace mercer
