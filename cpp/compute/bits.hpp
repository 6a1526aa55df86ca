// Gram matrices of columns of zeros and ones: their entries are counts of shared rows, which
// processors find in bitmaps many rows at a time. Counts are exact, so that results do not depend
// on the processor or the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "bits_loops.hpp"
#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const BitLoops bit_loops_v2, bit_loops_v3, bit_loops_v4;
inline const BitLoops* const bit_tables[] = {&bit_loops_v2, &bit_loops_v3, &bit_loops_v4};
#else
extern const BitLoops bit_loops_baseline;
inline const BitLoops* const bit_tables[] = {&bit_loops_baseline};
#endif

inline const BitLoops& bit_loops() {
    static const BitLoops& chosen = *bit_tables[choose_level()];
    return chosen;
}
inline const BitProducts& bit_products_here() {
#if defined(MERCER_X86_LEVELS)
    static const bool counts = __builtin_cpu_supports("avx512vpopcntdq");
    if (counts && bit_loops().counted.tile) return bit_loops().counted;
#endif
    return bit_loops().products;
}

constexpr std::size_t bit_words(std::size_t n_rows) {
    return (n_rows + kBlockRows - 1) / kBlockRows * kBlockWords;
}

// A column of a binned matrix: a grid and a code.
struct BinColumn {
    std::size_t grid;
    std::uint32_t code;
};

// Words of p columns of codes (R, n), which are sorted by grid, over the rows `order` (n_order), or
// over all of them where it is null.
template <class Code>
void pack_columns(const Code* codes, std::size_t n, const std::vector<BinColumn>& columns,
                  const std::uint32_t* order, std::size_t n_order, std::uint64_t* words,
                  int n_threads) {
    const std::size_t n_rows = order ? n_order : n, stride = bit_words(n_rows);
    std::vector<std::size_t> starts;  // of the columns of one grid
    for (std::size_t k = 0; k < columns.size(); ++k)
        if (k == 0 || columns[k].grid != columns[k - 1].grid) starts.push_back(k);
    const std::size_t n_runs = starts.size();
    starts.push_back(columns.size());
    std::vector<std::vector<Code>> gathered(static_cast<std::size_t>(std::max(n_threads, 1)));
    parallel_for(n_runs, n_threads, [&](std::size_t run, int thread) {
        const Code* grid = codes + columns[starts[run]].grid * n;
        if (order) {
            auto& own = gathered[static_cast<std::size_t>(thread)];
            own.resize(n_rows);
            for (std::size_t i = 0; i < n_rows; ++i) own[i] = grid[order[i]];
            grid = own.data();
        }
        for (std::size_t k = starts[run]; k < starts[run + 1]; ++k)
            if (columns[k].code > std::numeric_limits<Code>::max())  // no row's code
                std::fill_n(words + k * stride, stride, std::uint64_t{0});
            else
                bit_loops().pack.of<Code>()(grid, n_rows, static_cast<Code>(columns[k].code),
                                            words + k * stride);
    });
}

// out[i * out_step + j] = scale times the weighted count of rows that column i of `left` and column
// j of `right` share. Where both sides are the same, half of it is counted and mirrored.
struct BitSides {
    const std::uint64_t* left;
    const std::uint64_t* right;
    std::size_t n_left, n_right, n_blocks;
    const std::uint32_t* weights;
};

inline void count_shared(const BitSides& sides, double scale, double* out, int n_threads) {
    constexpr std::size_t side = 64, part = 64;  // 512 kB of either side's words, 4 kB of a column
    const BitProducts& loops = bit_products_here();
    const bool symmetric = sides.left == sides.right && sides.n_left == sides.n_right;
    const std::size_t stride = sides.n_blocks * kBlockWords;
    std::vector<std::pair<std::size_t, std::size_t>> squares;
    for (std::size_t i = 0; i < sides.n_left; i += side)
        for (std::size_t j = symmetric ? i : 0; j < sides.n_right; j += side)
            squares.emplace_back(i, j);
    parallel_for(squares.size(), n_threads, [&](std::size_t item, int) {
        const auto [first_i, first_j] = squares[item];
        const std::size_t rows = std::min(side, sides.n_left - first_i);
        const std::size_t width = std::min(side, sides.n_right - first_j);
        std::uint64_t counts[side * side] = {};
        for (std::size_t b = 0; b < sides.n_blocks; b += part) {
            const std::uint64_t* left = sides.left + first_i * stride + b * kBlockWords;
            const std::uint64_t* right = sides.right + first_j * stride + b * kBlockWords;
            BitPair pair{left, right, stride, std::min(part, sides.n_blocks - b),
                         sides.weights ? sides.weights + b : nullptr};
            for (std::size_t i = 0; i < rows; i += kTileColumns)
                for (std::size_t j = 0; j < width; j += kTileColumns) {
                    pair.left = left + i * stride;
                    pair.right = right + j * stride;
                    if (i + kTileColumns <= rows && j + kTileColumns <= width) {
                        loops.tile(pair, counts + i * side + j, side);
                        continue;
                    }
                    for (std::size_t k = i; k < std::min(i + kTileColumns, rows); ++k)
                        for (std::size_t l = j; l < std::min(j + kTileColumns, width); ++l) {
                            pair.left = left + k * stride;
                            pair.right = right + l * stride;
                            counts[k * side + l] += loops.one(pair);
                        }
                }
        }
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < width; ++j) {
                const double value = scale * static_cast<double>(counts[i * side + j]);
                out[(first_i + i) * sides.n_right + first_j + j] = value;
                if (symmetric && first_i != first_j)
                    out[(first_j + j) * sides.n_right + first_i + i] = value;
            }
    });
}

}  // namespace mercer
