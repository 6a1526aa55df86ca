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

// A bit for each lane that is not 0.
MERCER_INLINE std::uint64_t nonzero_lanes(Vector<std::uint64_t> v) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    return _mm512_test_epi64_mask((__m512i)v, (__m512i)v);
#elif defined(__AVX2__) && !defined(MERCER_PLAIN_VECTORS)
    const __m256i zero = _mm256_cmpeq_epi64((__m256i)v, _mm256_setzero_si256());
    return static_cast<std::uint64_t>(_mm256_movemask_pd((__m256d)zero) ^ 15);
#else
    std::uint64_t lane[lanes<std::uint64_t>], bits = 0;
    store(lane, v);
    for (int i = 0; i < lanes<std::uint64_t>; ++i) bits |= std::uint64_t{lane[i] != 0} << i;
    return bits;
#endif
}

// The place of the lowest bit of a number that is not 0.
MERCER_INLINE std::size_t first_bit(std::uint64_t bits) {
#if defined(__GNUC__)
    return static_cast<std::size_t>(__builtin_ctzll(bits));
#else
    std::size_t place = 0;
    while (!(bits >> place & 1)) ++place;
    return place;
#endif
}

// Keeps the compiler from computing this number together with others by vectors.
MERCER_INLINE void keep_scalar([[maybe_unused]] std::uint64_t& number) {
#if defined(__GNUC__)
    __asm__("" : "+r"(number));
#endif
}

constexpr std::size_t kHomeKeys = 64;  // looked up together

// The numbers of a block of keys, and a bit for each that is not at home. Hashes and comparisons
// are made by vectors, the loads one by one, which takes less time than gathering; without
// branches many are under way at once, however large the table.
template <class Code>
MERCER_INLINE std::uint64_t find_block(const std::uint64_t* keys, const std::uint64_t* slots,
                                       int bits, Code* codes) {
    constexpr std::size_t step = lanes<std::uint64_t>;
    std::uint64_t homes[kHomeKeys], rests[kHomeKeys];
    for (std::size_t i = 0; i < kHomeKeys; i += step) {
        const Keys hash = load(keys + i) * broadcast(hash_of_key(1));
        store(homes + i, hash >> (64 - bits));
        store(rests + i, hash << bits);
    }
    for (std::uint64_t& home : homes) {
        std::uint64_t slot = slots[home];
        keep_scalar(slot);
        home = slot;
    }
    const Keys one = broadcast<std::uint64_t>(1);
    const Keys beyond = broadcast(~std::uint64_t{0} << (bits - 1));
    std::uint64_t away = 0;
    for (std::size_t i = 0; i < kHomeKeys; i += step) {
        const Keys numbers = (load(homes + i) ^ load(rests + i)) - one;
        store(rests + i, numbers);
        away |= nonzero_lanes(numbers & beyond) << i;
    }
    for (std::size_t i = 0; i < kHomeKeys; ++i) codes[i] = static_cast<Code>(rests[i]);
    return away;
}

template <class Code>
std::size_t find_home(const std::uint64_t* keys, std::size_t count, const std::uint64_t* slots,
                      int bits, Code* codes, std::uint16_t* away) {
    std::size_t n_away = 0;
    const auto note = [&](std::size_t start, std::uint64_t found) MERCER_INLINE_BODY {
        for (; found; found &= found - 1)
            away[n_away++] = static_cast<std::uint16_t>(start + first_bit(found));
    };
    std::size_t i = 0;
    for (; i + kHomeKeys <= count; i += kHomeKeys)
        note(i, find_block(keys + i, slots, bits, codes + i));
    if (i < count) {
        std::uint64_t last_keys[kHomeKeys] = {};
        Code last_codes[kHomeKeys];
        for (std::size_t j = i; j < count; ++j) last_keys[j - i] = keys[j];
        const std::uint64_t found = find_block(last_keys, slots, bits, last_codes);
        for (std::size_t j = i; j < count; ++j) codes[j] = last_codes[j - i];
        note(i, found & ~(~std::uint64_t{0} << (count - i)));
    }
    return n_away;
}

// Rows are read one by one, as in find_block.
template <class Code>
std::size_t number_cells(const std::uint32_t* cells, std::size_t count, const Code* numbers,
                         Code* codes, std::uint16_t* away) {
    constexpr Code none = static_cast<Code>(~Code{0});
    constexpr std::size_t together = 32;
    std::size_t n_away = 0;
    for (std::size_t start = 0; start < count; start += together) {
        const std::size_t stop = start + together < count ? start + together : count;
        for (std::size_t i = start; i < stop; ++i) {
            std::uint64_t cell = cells[i];
            keep_scalar(cell);
            codes[i] = numbers[cell];
        }
        Code any = 0;
        for (std::size_t i = start; i < stop; ++i) any |= static_cast<Code>(codes[i] == none);
        for (std::size_t i = start; any && i < stop; ++i) {
            away[n_away] = static_cast<std::uint16_t>(i);
            n_away += codes[i] == none;
        }
    }
    return n_away;
}

}  // namespace
}  // namespace mercer
