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
    std::vector<std::int64_t> largest;               // rows in the fullest bin of each grid
    std::map<std::int64_t, std::int64_t> frequency;  // how many bins, over all grids, have a size
};

// Adds up the codes of one grid in `n_tables` tables of `room` counts that take turns: equal codes
// often follow each other, and a count must not wait for the one before it.
template <std::size_t n_tables, class Code>
void count_codes(const Code* codes, std::size_t n, std::size_t room, std::uint32_t* counts) {
    std::size_t i = 0;
    for (; i + n_tables <= n; i += n_tables)
        for (std::size_t table = 0; table < n_tables; ++table)
            ++counts[table * room + std::min<std::size_t>(codes[i + table], room - 1)];
    for (; i < n; ++i) ++counts[std::min<std::size_t>(codes[i], room - 1)];
}

// Codes (n_grids, n) beyond a grid's columns are not counted, and columns without a row are no
// bins.
template <class Code>
BinSizes bin_sizes(const Code* codes, const std::int64_t* offsets, std::size_t n_grids,
                   std::size_t n, int n_threads) {
    if (n * n_grids < 100000) n_threads = 1;
    constexpr std::size_t lanes = 4, few = 4096;  // tables of few bins stay in a near cache
    BinSizes sizes{std::vector<std::int64_t>(n_grids), {}};
    std::vector<std::map<std::int64_t, std::int64_t>> frequencies(
        static_cast<std::size_t>(std::max(n_threads, 1)));
    parallel_for(n_grids, n_threads, [&](std::size_t g, int thread) {
        auto n_bins = static_cast<std::size_t>(offsets[g + 1] - offsets[g]);
        if (n_bins > few)  // those beyond the largest code have no row
            n_bins = std::min<std::size_t>(
                n_bins,
                n ? std::size_t{*std::max_element(codes + g * n, codes + (g + 1) * n)} + 1 : 0);
        const std::size_t n_tables = n_bins <= few ? lanes : 1, room = n_bins + 1;
        std::vector<std::uint32_t> counts(n_tables * room);
        if (n_tables == lanes)
            count_codes<lanes>(codes + g * n, n, room, counts.data());
        else
            count_codes<1>(codes + g * n, n, room, counts.data());
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
