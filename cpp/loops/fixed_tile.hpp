// Numbers in [0, 1] as 16-bit fixed-point numbers and back. Included only by files compiled once
// per level.
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

// `count` numbers in [0, 1] as fixed-point numbers, a multiple of the lanes.
void to_fixed(const float* numbers, std::size_t count, std::uint16_t* fixed) {
    for (std::size_t i = 0; i < count; i += lanes<float>) {
        const Vector<float> scaled = load(numbers + i) * broadcast(65535.0f) + broadcast(0.5f);
        float lane[lanes<float>];
        store(lane, larger(smaller(scaled, broadcast(65535.0f)), broadcast(0.0f)));
        for (int l = 0; l < lanes<float>; ++l)
            fixed[i + static_cast<std::size_t>(l)] =
                static_cast<std::uint16_t>(static_cast<std::int32_t>(lane[l]));
    }
}

// Numbers between a tile and the one below it, which comes a few blocks later: asked for now, it is
// there in time. The processor by itself waits at the start of every block: products of 20 000 rows
// took twice the time (Zen 5).
constexpr std::size_t kBelow = kKernelRows * kKernelRows;

// Not inlined: totals that are read piece by piece would lie in memory all the time.
[[gnu::noinline]] void add_total(double* sums, Vector<float> total) {
    float numbers[lanes<float>];
    store(numbers, total);
    add_widened(sums, numbers);
}

// A tile times k weights of its rows, and of its columns if there are any: what sum_columns and
// sum_rows do, of numbers that are in no memory.
template <int k, bool both>
void multiply_tile_by(const FixedTile& tile) {
    constexpr int vectors = kRightVectors;
    constexpr std::size_t wide = lanes<float>;
    Vector<float> totals[k][vectors] = {}, of_columns[k][vectors] = {};
    if constexpr (both)
        for (int c = 0; c < k; ++c)
            for (int v = 0; v < vectors; ++v)
                of_columns[c][v] =
                    load(tile.column_weights + static_cast<std::size_t>(c * vectors + v) * wide);
    const std::uint16_t* fixed = tile.fixed;
    const float* weights = tile.row_weights;
    float* sums = tile.row_sums;
    for (std::size_t i = 0; i < tile.rows; ++i) {
        __builtin_prefetch(fixed + kBelow, 0, 2);
        Vector<float> row[vectors];
        for (int v = 0; v < vectors; ++v)
            row[v] = load_fixed(fixed + static_cast<std::size_t>(v) * wide);
        for (int c = 0; c < k; ++c) {
            for (int v = 0; v < vectors; ++v) totals[c][v] += broadcast(weights[c]) * row[v];
            if constexpr (both) {
                float* const at = sums + static_cast<std::size_t>(c) * wide;
                Vector<float> sum = load(at);
                for (int v = 0; v < vectors; ++v) sum += row[v] * of_columns[c][v];
                store(at, sum);
            }
        }
        sums += static_cast<std::size_t>(k) * wide;
        fixed += kRight<float>;
        weights += k;
    }
    for (int c = 0; c < k; ++c)
        for (int v = 0; v < vectors; ++v)
            add_total(tile.column_sums + static_cast<std::size_t>(c * vectors + v) * wide,
                      totals[c][v]);
}
template <int k>
void multiply_tile(const FixedTile& tile) {
    if (tile.column_weights)
        multiply_tile_by<k, true>(tile);
    else
        multiply_tile_by<k, false>(tile);
}

}  // namespace
}  // namespace mercer
