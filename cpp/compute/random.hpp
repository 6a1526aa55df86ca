// Counter-based random numbers: Philox 4x64 with ten rounds (Salmon, Moraes, Dror, Shaw, 2011).
//
// A number is a pure function of (key, slot, stream, position): any element can be had without
// its predecessors, so parameters of column j never depend on which columns are asked for, in
// which order, or by how many threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace mercer {

struct Product128 {
    std::uint64_t high, low;
};

inline Product128 multiply128(std::uint64_t a, std::uint64_t b) {
#if defined(__SIZEOF_INT128__)
    const auto product = static_cast<unsigned __int128>(a) * b;
    return {static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product)};
#else
    Product128 product;
    product.low = _umul128(a, b, &product.high);
    return product;
#endif
}

using Counter = std::array<std::uint64_t, 4>;

inline Counter philox(Counter c, std::uint64_t key0, std::uint64_t key1) {
    for (int round = 0; round < 10; ++round) {
        const Product128 p = multiply128(0xD2E7470EE14C6C93u, c[0]);
        const Product128 q = multiply128(0xCA5A826395121157u, c[2]);
        c = {q.high ^ c[1] ^ key0, q.low, p.high ^ c[3] ^ key1, p.low};
        key0 += 0x9E3779B97F4A7C15u;
        key1 += 0xBB67AE8584CAA73Bu;
    }
    return c;
}

// Writes numbers 0 .. size-1 of one stream. Four consecutive positions share one Philox block.
template <class Convert, class Out>
void random_fill(std::uint64_t key, std::uint64_t slot, std::uint64_t stream, std::size_t size,
                 Convert convert, Out* out) {
    for (std::size_t position = 0; position < size; position += 4) {
        const Counter block = philox({position / 4, stream, slot, 0}, key, 0);
        const std::size_t stop = size - position < 4 ? size - position : 4;
        for (std::size_t lane = 0; lane < stop; ++lane) out[position + lane] = convert(block[lane]);
    }
}

// The midpoint of one of 2^52 equal cells: never 0 and never 1. (With 2^53 cells the last
// midpoint would round to 1.)
inline double to_open_unit_interval(std::uint64_t bits) {
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace mercer
