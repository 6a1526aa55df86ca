// Keys and columns of the rows of a tile: loops.hpp says what is computed.
#pragma once

#include "hashing.hpp"
#include "loops.hpp"
#include "simd.hpp"

namespace mercer {
namespace {

template <class T>
void fill_tile(const T* numbers, std::size_t rows, std::size_t d, T* tile,
               [[maybe_unused]] float* rounded, T* low, T* high) {
    constexpr std::size_t line = 64 / sizeof(T);  // rows that fill one cache line of the tile
    for (std::size_t i0 = 0; i0 < kTileRows; i0 += line) {
        const T* row[line];
        for (std::size_t i = 0; i < line; ++i)
            row[i] = numbers + (i0 + i < rows ? i0 + i : rows - 1) * d;
        for (std::size_t j = 0; j < d; ++j)
            for (std::size_t i = 0; i < line; ++i) tile[j * kTileRows + i0 + i] = row[i][j];
    }
    constexpr std::size_t step = lanes<T>;
    for (std::size_t j = 0; j < d; ++j) {
        const T* column = tile + j * kTileRows;
        Vector<T> least = load(column), most = least;
        for (std::size_t i = step; i < kTileRows; i += step) {
            least = smaller(load(column + i), least);
            most = larger(load(column + i), most);
        }
        if constexpr (sizeof(T) == 8)
            for (std::size_t i = 0; i < kTileRows; i += step)
                store_as(rounded + j * kTileRows + i, load(column + i));
        T lane[2][step];
        store(lane[0], least);
        store(lane[1], most);
        low[j] = lane[0][0];
        high[j] = lane[1][0];
        for (std::size_t i = 1; i < step; ++i) {
            low[j] = lane[0][i] < low[j] ? lane[0][i] : low[j];
            high[j] = lane[1][i] > high[j] ? lane[1][i] : high[j];
        }
    }
}

// Samples whose keys are kept in registers while all inputs pass by.
constexpr int kBlockVectors = MERCER_VECTOR_BYTES == 64 ? 16 : 8;
constexpr std::size_t kBlock = kBlockVectors * lanes<double>;
static_assert(kTileRows % kBlock == 0);

// The keys of a block, its samples side by side. Their halves are kept apart, the low one first: a
// comparison of float32 makes masks of 32 bits. Cells have a low half alone.
template <int n_halves>
struct BlockKeys {
    Halves half[n_halves][kBlockVectors / 2];
};

MERCER_INLINE Halves half_of(std::uint64_t packed, int which) {
    return broadcast(static_cast<std::uint32_t>(packed >> 32 * which));
}

template <int n_halves>
MERCER_INLINE void start(BlockKeys<n_halves>& keys, std::uint64_t base) {
    for (int h = 0; h < n_halves; ++h)
        for (Halves& half : keys.half[h]) half = half_of(base, h);
}

// Counts an edge where it is crossed.
template <int n_halves>
MERCER_INLINE void add_edge(BlockKeys<n_halves>& keys, const float* x, const Edge<float>& edge) {
    const Vector<float> threshold = broadcast(edge.threshold);
    for (int v = 0; v < kBlockVectors / 2; ++v) {
        const Vector<float> numbers = load(x + v * lanes<float>);
        for (int h = 0; h < n_halves; ++h)
            keys.half[h][v] = add_where_at_least(keys.half[h][v], numbers, threshold,
                                                 half_of(edge.multiplier, h));
    }
}
template <int n_halves>
MERCER_INLINE void add_edge(BlockKeys<n_halves>& keys, const double* x, const Edge<double>& edge) {
    const Vector<double> threshold = broadcast(edge.threshold);
    for (int v = 0; v < kBlockVectors / 2; ++v, x += lanes<float>) {
        const Keys crossed[2] = {at_least<Keys>(load(x), threshold),
                                 at_least<Keys>(load(x + lanes<double>), threshold)};
        const Halves mask = low_halves(crossed);
        for (int h = 0; h < n_halves; ++h) keys.half[h][v] += mask & half_of(edge.multiplier, h);
    }
}

// The codes of a block in float64, one in either half of each lane.
template <class T>
MERCER_INLINE void exact_codes(const T* x, const Ramp& ramp, Keys* pairs) {
    const Vector<double> inverse_width = broadcast(ramp.inverse_width);
    const Vector<double> shift = broadcast(ramp.shift);
    for (int v = 0; v < kBlockVectors; ++v)
        pairs[v] = paired_codes(widen(x + v * lanes<double>), inverse_width, shift);
}

// Codes in float32; false if one of them might differ from the code in float64. The nearest integer
// to x / width - shift - 1/2 is the code unless that number is half-way between two integers, give
// or take the error of float32 (Ramp::margin).
MERCER_INLINE bool quick_codes(const float* x, const Ramp& ramp, Halves* codes) {
    const Vector<float> inverse_width = broadcast(static_cast<float>(ramp.inverse_width));
    const Vector<float> shift = broadcast(static_cast<float>(ramp.shift + 0.5));
    const Vector<float> magic = broadcast(0x1.8p23f);  // adding it rounds to the nearest integer
    Vector<float> furthest = broadcast(0.0f);
    for (int v = 0; v < kBlockVectors / 2; ++v) {
        const Vector<float> position = load(x + v * lanes<float>) * inverse_width - shift;
        const Vector<float> rounded = position + magic;
        furthest = larger(magnitude(position - (rounded - magic)), furthest);
        codes[v] = reinterpret<Halves>(rounded) - reinterpret<Halves>(magic);
    }
    return !any_above(furthest, ramp.margin);
}

template <class T, int n_halves>
MERCER_INLINE void add_ramp(BlockKeys<n_halves>& keys, const float* rounded, const T* x,
                            const Ramp& ramp) {
    Halves codes[kBlockVectors / 2];
    if (!quick_codes(rounded, ramp, codes)) {
        Keys pairs[kBlockVectors];
        exact_codes(x, ramp, pairs);
        for (int v = 0; v < kBlockVectors / 2; ++v) codes[v] = low_halves(pairs + 2 * v);
    }
    for (int h = 0; h < n_halves; ++h)
        for (int v = 0; v < kBlockVectors / 2; ++v)
            keys.half[h][v] += codes[v] * half_of(ramp.multiplier, h);
}

MERCER_INLINE void finish(const BlockKeys<2>& keys, std::uint64_t* out) {
    std::uint32_t low[kBlock], high[kBlock];
    for (int v = 0; v < kBlockVectors / 2; ++v) {
        store(low + v * lanes<float>, keys.half[0][v]);
        store(high + v * lanes<float>, keys.half[1][v]);
    }
    for (std::size_t i = 0; i < kBlock; ++i)
        out[i] = static_cast<std::uint64_t>(high[i]) << 32 | low[i];
}

// Calls finish(keys of a block, first row of it) for one block after another.
template <int n_halves, class T, class Finish>
MERCER_INLINE void for_each_block(const TileGrid<T>& grid, std::size_t rows, Finish finish) {
    for (std::size_t row = 0; row < rows; row += kBlock) {
        BlockKeys<n_halves> keys;
        start(keys, grid.base);
        for (std::size_t e = 0; e < grid.n_edges; ++e)
            add_edge(keys, grid.rounded + grid.edges[e].input * kTileRows + row, grid.edges[e]);
        for (std::size_t e = 0; e < grid.n_close; ++e)
            add_edge(keys, grid.tile + grid.close[e].input * kTileRows + row, grid.close[e]);
        for (std::size_t r = 0; r < grid.n_ramps; ++r) {
            const std::size_t at = grid.ramps[r].input * kTileRows + row;
            add_ramp(keys, grid.rounded + at, grid.tile + at, grid.ramps[r]);
        }
        finish(keys, row);
    }
}

template <class T>
void hash_tile(const TileGrid<T>& grid, std::size_t rows, std::uint64_t* keys) {
    for_each_block<2>(grid, rows,
                      [&](const BlockKeys<2>& block, std::size_t row)
                          MERCER_INLINE_BODY { finish(block, keys + row); });
}

template <class T>
void find_cells(const TileGrid<T>& grid, std::size_t rows, std::uint32_t n_cells,
                std::uint32_t* cells) {
    const Halves last = broadcast(n_cells - 1);  // what is not a number stays among them, too
    for_each_block<1>(
        grid, rows, [&](const BlockKeys<1>& block, std::size_t row) MERCER_INLINE_BODY {
            for (int v = 0; v < kBlockVectors / 2; ++v)
                store(cells + row + v * lanes<float>, smaller(block.half[0][v], last));
        });
}

// 0 unless the number is a power of two
inline int exact_log2(std::uint32_t n) {
    int bits = 0;
    while (bits < 31 && n >> bits != 1) ++bits;
    return std::uint32_t{1} << bits == n ? bits : 0;
}

template <class Code>
MERCER_INLINE void fold(const BlockKeys<2>& keys, std::uint32_t n_columns, Code* codes) {
    const int bits = exact_log2(n_columns);
    for (int v = 0; v < kBlockVectors / 2; ++v) {
        const Halves mixed = mix_halves(keys.half[0][v], keys.half[1][v], broadcast(kMixer));
        std::uint32_t block[lanes<float>];
        if (bits > 0) {
            store(block, mixed >> (32 - bits));
        } else {
            store(block, mixed);
            for (std::uint32_t& code : block)
                code = static_cast<std::uint32_t>((static_cast<std::uint64_t>(code) * n_columns) >>
                                                  32);
        }
        for (int i = 0; i < lanes<float>; ++i)
            codes[v * lanes<float> + i] = static_cast<Code>(block[i]);
    }
}

template <class T, class Code>
void hash_columns(const TileGrid<T>& grid, std::size_t rows, std::uint32_t n_columns, Code* codes) {
    for_each_block<2>(grid, rows,
                      [&](const BlockKeys<2>& block, std::size_t row)
                          MERCER_INLINE_BODY { fold(block, n_columns, codes + row); });
}

}  // namespace
}  // namespace mercer
