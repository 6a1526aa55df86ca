// Numbers in [0, 1] as fixed-point numbers of 16 or 31 bits and back. Included only by files
// compiled once per level.
#pragma once

#include "product_tile.hpp"

namespace mercer {
namespace {

// 16-bit whole numbers as float32.
MERCER_INLINE Vector<float> load_fixed(const std::uint16_t* p) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    const auto shorts = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return (Vector<float>)_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(shorts));
#elif defined(__AVX2__) && !defined(MERCER_PLAIN_VECTORS)
    const auto shorts = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return (Vector<float>)_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(shorts));
#elif defined(__SSE4_1__) && !defined(MERCER_PLAIN_VECTORS)
    const auto shorts = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return (Vector<float>)_mm_cvtepi32_ps(_mm_cvtepu16_epi32(shorts));
#else
    float lane[lanes<float>];
    for (float& number : lane) number = *p++;
    return load(lane);
#endif
}

// 31-bit whole numbers as float64.
MERCER_INLINE Vector<double> load_fixed(const std::uint32_t* p) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm512_cvtepi32_pd(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__SSE4_1__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm_cvtepi32_pd(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
    double lane[lanes<double>];
    for (double& number : lane) number = static_cast<std::int32_t>(*p++);
    return load(lane);
#endif
}

// `count` numbers in [0, 1] as fixed-point numbers, a multiple of the lanes.
template <class T>
void to_fixed(const T* numbers, std::size_t count, Fixed<T>* fixed) {
    const Vector<T> most = broadcast(kMostFixed<T>);
    for (std::size_t i = 0; i < count; i += lanes<T>) {
        const Vector<T> scaled = load(numbers + i) * most + broadcast(T(0.5));
        T lane[lanes<T>];
        store(lane, larger(smaller(scaled, most), broadcast(T(0))));
        for (int l = 0; l < lanes<T>; ++l)
            fixed[i + static_cast<std::size_t>(l)] =
                static_cast<Fixed<T>>(static_cast<std::int32_t>(lane[l]));
    }
}

// Numbers between a tile and the one below it, which comes a few blocks later: asked for now, it is
// there in time. The processor by itself waits at the start of every block: products of 20 000 rows
// took twice the time (Zen 5).
constexpr std::size_t kBelow = kKernelRows * kKernelRows;

// Not inlined: totals that are read piece by piece would lie in memory all the time.
template <class T>
[[gnu::noinline]] void add_total(double* sums, Vector<T> total) {
    T numbers[lanes<T>];
    store(numbers, total);
    add_widened(sums, numbers);
}

// A tile times k weights of its rows, and of its columns if there are any: what sum_columns and
// sum_rows do, of numbers that are in no memory.
template <class T, int k, bool both>
void multiply_tile_by(const FixedTile<T>& tile) {
    constexpr int vectors = kRightVectors;
    constexpr std::size_t wide = lanes<T>;
    Vector<T> totals[k][vectors] = {}, of_columns[k][vectors] = {};
    if constexpr (both)
        for (int c = 0; c < k; ++c)
            for (int v = 0; v < vectors; ++v)
                of_columns[c][v] =
                    load(tile.column_weights + static_cast<std::size_t>(c * vectors + v) * wide);
    const Fixed<T>* fixed = tile.fixed;
    const T* weights = tile.row_weights;
    T* sums = tile.row_sums;
    for (std::size_t i = 0; i < tile.rows; ++i) {
        __builtin_prefetch(fixed + kBelow, 0, 2);
        Vector<T> row[vectors];
        for (int v = 0; v < vectors; ++v)
            row[v] = load_fixed(fixed + static_cast<std::size_t>(v) * wide);
        for (int c = 0; c < k; ++c) {
            for (int v = 0; v < vectors; ++v) totals[c][v] += broadcast(weights[c]) * row[v];
            if constexpr (both) {
                T* const at = sums + static_cast<std::size_t>(c) * wide;
                Vector<T> sum = load(at);
                for (int v = 0; v < vectors; ++v) sum += row[v] * of_columns[c][v];
                store(at, sum);
            }
        }
        sums += static_cast<std::size_t>(k) * wide;
        fixed += kRight<T>;
        weights += k;
    }
    for (int c = 0; c < k; ++c)
        for (int v = 0; v < vectors; ++v)
            add_total<T>(tile.column_sums + static_cast<std::size_t>(c * vectors + v) * wide,
                         totals[c][v]);
}
template <class T, int k>
void multiply_tile(const FixedTile<T>& tile) {
    if (tile.column_weights)
        multiply_tile_by<T, k, true>(tile);
    else
        multiply_tile_by<T, k, false>(tile);
}

template <class T>
constexpr FixedLoops<T> fixed_loops = {
    to_fixed<T>,
    {multiply_tile<T, 1>, multiply_tile<T, 2>, multiply_tile<T, 3>, multiply_tile<T, 4>}};

}  // namespace
}  // namespace mercer
