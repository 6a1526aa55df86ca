// How many rows share a bin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "parallel.hpp"

namespace mercer {

struct BinSizes {
    std::vector<std::int64_t> largest;  // of each grid
    std::map<std::int64_t, std::int64_t>
        frequency;  // bins of every size that occurs, over all grids
};

// Codes (n_grids, n) beyond a grid's columns are not counted, and columns without a row are no
// bins.
template <class Code>
BinSizes bin_sizes(const Code* codes, const std::int64_t* offsets, std::size_t n_grids,
                   std::size_t n, int n_threads) {
    if (n * n_grids < 100000) n_threads = 1;
    constexpr std::size_t lanes = 4;  // tables that take turns, as equal codes follow each other
    constexpr std::size_t few = 4096;
    BinSizes sizes{std::vector<std::int64_t>(n_grids), {}};
    std::vector<std::map<std::int64_t, std::int64_t>> frequencies(
        static_cast<std::size_t>(std::max(n_threads, 1)));
    parallel_for(n_grids, n_threads, [&](std::size_t g, int thread) {
        const auto n_bins = static_cast<std::size_t>(offsets[g + 1] - offsets[g]);
        const std::size_t n_tables = n_bins <= few ? lanes : 1, room = n_bins + 1;
        std::vector<std::uint32_t> counts(n_tables * room);
        const Code* code = codes + g * n;
        for (std::size_t i = 0; i < n; ++i)
            ++counts[i % n_tables * room + std::min<std::size_t>(code[i], n_bins)];
        auto& frequency = frequencies[static_cast<std::size_t>(thread)];
        std::vector<std::int64_t> small(few);
        std::int64_t largest = 0;
        for (std::size_t b = 0; b < n_bins; ++b) {
            std::int64_t size = 0;
            for (std::size_t table = 0; table < n_tables; ++table) size += counts[table * room + b];
            largest = std::max(largest, size);
            if (size < static_cast<std::int64_t>(few))
                ++small[static_cast<std::size_t>(size)];
            else
                ++frequency[size];
        }
        for (std::size_t size = 1; size < few; ++size)
            if (small[size]) frequency[static_cast<std::int64_t>(size)] += small[size];
        sizes.largest[g] = largest;
    });
    for (const auto& frequency : frequencies)
        for (const auto& [size, bins] : frequency) sizes.frequency[size] += bins;
    return sizes;
}

}  // namespace mercer
