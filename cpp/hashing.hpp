// Keys of bins: loops.hpp says what is computed.
#pragma once

#include "loops.hpp"
#include "simd.hpp"

namespace mercer {
namespace {

using Keys = Vector<std::uint64_t>;
using Halves = Vector<std::uint32_t>;

MERCER_INLINE Keys add_halves(Keys a, Keys b) {
    return reinterpret<Keys>(reinterpret<Halves>(a) + reinterpret<Halves>(b));
}
MERCER_INLINE Keys multiply_halves(Keys a, Keys b) {
    return reinterpret<Keys>(reinterpret<Halves>(a) * reinterpret<Halves>(b));
}

// The code of each lane in both its halves.
MERCER_INLINE Keys paired_codes(Vector<double> x, Vector<double> inverse_width,
                                Vector<double> shift) {
    Vector<double> v = x * inverse_width - shift;
    v = larger(v, broadcast(-0x1p31));
    v = smaller(v, broadcast(0x1p31 - 1.0));
    // Adding 1.5 * 2^52 leaves the integer in the low bits of the significand.
    const Keys bits = reinterpret<Keys>(floor(v) + broadcast(0x1.8p52));
    return (bits << 32) | (bits & broadcast<std::uint64_t>(0xffffffffu));
}

// The rows of hash_row are cut into whole vectors; `lane_codes` receives one vector's codes.
MERCER_INLINE Keys hash_lanes(const double* x, const double* inverse_widths, const double* shifts,
                              const std::uint64_t* multipliers, std::int32_t* lane_codes) {
    const Keys pairs = paired_codes(load(x), load(inverse_widths), load(shifts));
    if (lane_codes) {
        std::uint64_t lane[lanes<double>];
        store(lane, pairs);
        for (int i = 0; i < lanes<double>; ++i)
            lane_codes[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(lane[i]));
    }
    return multiply_halves(pairs, load(multipliers));
}

std::uint64_t hash_row(const double* x, const double* inverse_widths, const double* shifts,
                       const std::uint64_t* multipliers, std::size_t d, std::int32_t* codes) {
    constexpr std::size_t step = lanes<double>;
    Keys sum = broadcast<std::uint64_t>(0);
    std::size_t j = 0;
    for (; j + step <= d; j += step)
        sum = add_halves(sum, hash_lanes(x + j, inverse_widths + j, shifts + j, multipliers + j,
                                         codes ? codes + j : nullptr));
    if (j < d) {  // the rest through padded copies; multiplier 0 keeps the padding out of the sum
        double rest[3][step] = {};
        std::uint64_t rest_multipliers[step] = {};
        std::int32_t rest_codes[step];
        for (std::size_t i = 0; j + i < d; ++i) {
            rest[0][i] = x[j + i];
            rest[1][i] = inverse_widths[j + i];
            rest[2][i] = shifts[j + i];
            rest_multipliers[i] = multipliers[j + i];
        }
        sum = add_halves(sum, hash_lanes(rest[0], rest[1], rest[2], rest_multipliers, rest_codes));
        for (std::size_t i = 0; codes && j + i < d; ++i) codes[j + i] = rest_codes[i];
    }
    std::uint64_t lane[step], total = 0;
    store(lane, sum);
    for (std::uint64_t key : lane) total = add_packed(total, key);
    return total;
}

template <class T>
void fill_tile(const T* numbers, std::size_t rows, std::size_t d, T* tile, T* low, T* high) {
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
constexpr int kBlockVectors = 8;
constexpr std::size_t kBlock = kBlockVectors * lanes<double>;
static_assert(kTileRows % kBlock == 0);

// Counts crossed edges in one block; the two halves of float keys are gathered apart, because a
// comparison of floats makes masks of 32 bits.
MERCER_INLINE void count_edges(const float* block, const Edge<float>* edges, std::size_t n_edges,
                               std::uint64_t base, std::uint64_t* keys) {
    constexpr int vectors = kBlockVectors / 2, step = lanes<float>;
    Halves low[vectors], high[vectors];
    for (int v = 0; v < vectors; ++v) {
        low[v] = broadcast(static_cast<std::uint32_t>(base));
        high[v] = broadcast(static_cast<std::uint32_t>(base >> 32));
    }
    for (std::size_t e = 0; e < n_edges; ++e) {
        const float* x = block + edges[e].input * kTileRows;
        const Vector<float> threshold = broadcast(edges[e].threshold);
        const Halves low_multiplier = broadcast(static_cast<std::uint32_t>(edges[e].multiplier));
        const Halves high_multiplier =
            broadcast(static_cast<std::uint32_t>(edges[e].multiplier >> 32));
        for (int v = 0; v < vectors; ++v) {
            const Vector<float> numbers = load(x + v * step);
            low[v] = add_where_at_least(low[v], numbers, threshold, low_multiplier);
            high[v] = add_where_at_least(high[v], numbers, threshold, high_multiplier);
        }
    }
    std::uint32_t halves[2][kBlock];
    for (int v = 0; v < vectors; ++v) {
        store(halves[0] + v * step, low[v]);
        store(halves[1] + v * step, high[v]);
    }
    for (std::size_t i = 0; i < kBlock; ++i)
        keys[i] = static_cast<std::uint64_t>(halves[1][i]) << 32 | halves[0][i];
}

MERCER_INLINE void count_edges(const double* block, const Edge<double>* edges, std::size_t n_edges,
                               std::uint64_t base, std::uint64_t* keys) {
    constexpr int step = lanes<double>;
    Keys sum[kBlockVectors];
    for (int v = 0; v < kBlockVectors; ++v) sum[v] = broadcast(base);
    for (std::size_t e = 0; e < n_edges; ++e) {
        const double* x = block + edges[e].input * kTileRows;
        const Vector<double> threshold = broadcast(edges[e].threshold);
        const Keys multiplier = broadcast(edges[e].multiplier);
        for (int v = 0; v < kBlockVectors; ++v)
            sum[v] = add_halves(sum[v], at_least<Keys>(load(x + v * step), threshold) & multiplier);
    }
    for (int v = 0; v < kBlockVectors; ++v) store(keys + v * step, sum[v]);
}

template <class T>
MERCER_INLINE void add_ramps(const T* block, const Ramp* ramps, std::size_t n_ramps,
                             std::uint64_t* keys) {
    constexpr int step = lanes<double>;
    Keys sum[kBlockVectors];
    for (int v = 0; v < kBlockVectors; ++v) sum[v] = load(keys + v * step);
    for (std::size_t r = 0; r < n_ramps; ++r) {
        const T* x = block + ramps[r].input * kTileRows;
        const Vector<double> inverse_width = broadcast(ramps[r].inverse_width);
        const Vector<double> shift = broadcast(ramps[r].shift);
        const Keys multiplier = broadcast(ramps[r].multiplier);
        for (int v = 0; v < kBlockVectors; ++v) {
            const Keys pairs = paired_codes(widen(x + v * step), inverse_width, shift);
            sum[v] = add_halves(sum[v], multiply_halves(pairs, multiplier));
        }
    }
    for (int v = 0; v < kBlockVectors; ++v) store(keys + v * step, sum[v]);
}

template <class T>
void hash_tile(const T* tile, std::size_t rows, const Edge<T>* edges, std::size_t n_edges,
               const Ramp* ramps, std::size_t n_ramps, std::uint64_t base, std::uint64_t* keys) {
    for (std::size_t row = 0; row < rows; row += kBlock) {
        count_edges(tile + row, edges, n_edges, base, keys + row);
        if (n_ramps > 0) add_ramps(tile + row, ramps, n_ramps, keys + row);
    }
}

// The keys of sparse rows in kGridLanes grids at once: start from the key of the zero vector and
// exchange the contribution of each stored input. Keys of one grid lie `stride` apart.
template <class T, class Index>
void hash_sparse(const T* values, const Index* inputs, const Index* row_starts, std::size_t n_rows,
                 const GridGroup* groups, const std::uint64_t* zero_keys, std::uint64_t* keys,
                 std::size_t stride) {
    constexpr int step = lanes<double>, vectors = static_cast<int>(kGridLanes) / step;
    for (std::size_t row = 0; row < n_rows; ++row) {
        Keys sum[vectors];
        for (int v = 0; v < vectors; ++v) sum[v] = load(zero_keys + v * step);
        for (Index entry = row_starts[row]; entry < row_starts[row + 1]; ++entry) {
            const GridGroup& group = groups[inputs[entry]];
            const Vector<double> x = broadcast(static_cast<double>(values[entry]));
            for (int v = 0; v < vectors; ++v) {
                const Keys pairs = paired_codes(x, load(group.inverse_width + v * step),
                                                load(group.shift + v * step));
                const Keys there = multiply_halves(pairs, load(group.multiplier + v * step));
                const Keys at_zero = load(group.at_zero + v * step);
                sum[v] = add_halves(sum[v], reinterpret<Keys>(reinterpret<Halves>(there) -
                                                              reinterpret<Halves>(at_zero)));
            }
        }
        std::uint64_t lane[kGridLanes];
        for (int v = 0; v < vectors; ++v) store(lane + v * step, sum[v]);
        for (std::size_t g = 0; g < kGridLanes; ++g) keys[g * stride + row] = lane[g];
    }
}

template <class Code>
void fold_keys(const std::uint64_t* keys, std::size_t count, std::uint32_t n_columns, Code* codes) {
    for (std::size_t i = 0; i < count; ++i) {
        auto low = static_cast<std::uint32_t>(keys[i]);
        low = (low ^ (low >> 16)) * 0x7feb352du;
        const std::uint32_t mixed = low ^ (low >> 15) ^ static_cast<std::uint32_t>(keys[i] >> 32);
        codes[i] = static_cast<Code>((static_cast<std::uint64_t>(mixed) * n_columns) >> 32);
    }
}

}  // namespace
}  // namespace mercer
