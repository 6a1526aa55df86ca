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

template <std::size_t size>
struct Masks {  // std::array's functions would be symbols that all levels share
    std::uint64_t bits[size];
};

std::uint64_t hash_row(const double* x, const double* inverse_widths, const double* shifts,
                       const std::uint64_t* multipliers, std::size_t d, std::int32_t* codes) {
    constexpr std::size_t step = lanes<double>;
    Keys sum = broadcast<std::uint64_t>(0);
    std::size_t j = 0;
    for (; j + step <= d; j += step)
        sum = add_halves(sum, hash_lanes(x + j, inverse_widths + j, shifts + j, multipliers + j,
                                         codes ? codes + j : nullptr));
    if (j < d && d >= step) {  // the last whole vector; multiplier 0 for what was counted
        static constexpr auto kept = [] {
            Masks<2 * step> masks{};
            for (std::size_t i = step; i < 2 * step; ++i) masks.bits[i] = ~std::uint64_t{0};
            return masks;
        }();
        const std::size_t at = d - step;
        std::uint64_t last[step];
        store(last, load(multipliers + at) & load(kept.bits + step - (j - at)));
        sum = add_halves(sum, hash_lanes(x + at, inverse_widths + at, shifts + at, last,
                                         codes ? codes + at : nullptr));
    } else if (j < d) {  // few inputs through padded copies
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

constexpr std::uint32_t kMixer = 0x7feb352du;

// Spreads a key over 32 bits, given by its halves: numbers or vectors; `factor` is kMixer.
template <class V>
MERCER_INLINE V mix_halves(V low, V high, V factor) {
    low = (low ^ (low >> 16)) * factor;
    return low ^ (low >> 15) ^ high;
}

template <class Code>
void fold_keys(const std::uint64_t* keys, std::size_t count, std::uint32_t n_columns, Code* codes) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t mixed = mix_halves(static_cast<std::uint32_t>(keys[i]),
                                               static_cast<std::uint32_t>(keys[i] >> 32), kMixer);
        codes[i] = static_cast<Code>((static_cast<std::uint64_t>(mixed) * n_columns) >> 32);
    }
}

// Without branches: the loads of many keys are under way at once, however large the table.
template <class Code>
std::size_t find_home(const std::uint64_t* keys, std::size_t count, const std::uint64_t* slots,
                      int bits, Code* codes, std::uint16_t* away) {
    const std::uint64_t most = std::uint64_t{1} << (bits - 1);
    std::size_t n_away = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t hash = hash_of_key(keys[i]);
        const std::uint64_t number = (slots[hash >> (64 - bits)] ^ (hash << bits)) - 1;
        codes[i] = static_cast<Code>(number);
        away[n_away] = static_cast<std::uint16_t>(i);
        n_away += number >= most;
    }
    return n_away;
}

}  // namespace
}  // namespace mercer
