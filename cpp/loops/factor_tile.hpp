// Cholesky factors in float32 of matrices in strips. Included only by files compiled once per
// level.
#pragma once

#include "factor_loops.hpp"
#include "gather.hpp"
#include "simd.hpp"

namespace mercer {
namespace {

// Sums of kGroup rows by a strip stay in registers: wider tiles than those of panels.hpp, for here
// both operands come from further away than the nearest cache.
#if defined(__AVX512F__)
constexpr int kGroup = 8;
#else
constexpr int kGroup = 4;
#endif
constexpr int kStripVectors = 3;
constexpr std::size_t kStrip = kStripVectors * lanes<float>;
constexpr std::size_t kRows = kGroup;
static_assert(kStrip % kRows == 0);

constexpr std::size_t kBlock = 144 / kStrip;  // strips whose rows are eliminated together
constexpr std::size_t kFar = 480 / kStrip;    // strips of so many of these rows: a near cache

using GroupSums = Vector<float>[kGroup][kStripVectors];

MERCER_INLINE const float* row_of(const float* matrix, std::size_t row, std::size_t strip) {
    return matrix + start_of_strip(strip, kStrip) + row * kStrip;
}
MERCER_INLINE float* row_of(float* matrix, std::size_t row, std::size_t strip) {
    return matrix + start_of_strip(strip, kStrip) + row * kStrip;
}

// sums = left' * right, of rows of two strips
MERCER_INLINE void multiply(const float* left, const float* right, std::size_t depth,
                            GroupSums& sums) {
    for (auto& row : sums)
        for (Vector<float>& sum : row) sum = broadcast(0.0f);
    for (std::size_t k = 0; k < depth; ++k) {
        Vector<float> r[kStripVectors];
        for (int v = 0; v < kStripVectors; ++v) r[v] = load(right + v * lanes<float>);
        for (int i = 0; i < kGroup; ++i) {
            const Vector<float> l = broadcast(left[i]);
            for (int v = 0; v < kStripVectors; ++v) sums[i][v] += l * r[v];
        }
        left += kStrip;
        right += kStrip;
    }
}

MERCER_INLINE void fetch_tile(const float* tile) {
    for (std::size_t k = 0; k < kRows * kStrip; k += 16) prefetch(tile + k, 1);
}

// tile (kGroup, kStrip) -= left' * right
void subtract_product(const float* left, const float* right, std::size_t depth, float* tile) {
    fetch_tile(tile);  // while the sums are made
    GroupSums sums;
    multiply(left, right, depth, sums);
    for (int i = 0; i < kGroup; ++i)
        for (int v = 0; v < kStripVectors; ++v) {
            float* const at = tile + (i * kStripVectors + v) * lanes<float>;
            store(at, load(at) - sums[i][v]);
        }
}

// The same, and then what of the rows is left is solved for with their triangle of the factor.
void solve_group(const float* left, const float* right, std::size_t depth, const float* triangle,
                 float* tile) {
    fetch_tile(tile);
    GroupSums sums;
    multiply(left, right, depth, sums);
    for (int i = 0; i < kGroup; ++i)
        for (int v = 0; v < kStripVectors; ++v)
            sums[i][v] = load(tile + (i * kStripVectors + v) * lanes<float>) - sums[i][v];
    for (int i = 0; i < kGroup; ++i) {
        const float* const row = triangle + static_cast<std::size_t>(i) * kStrip;
        for (int v = 0; v < kStripVectors; ++v) {
            sums[i][v] = sums[i][v] * broadcast(row[i]);
            store(tile + (i * kStripVectors + v) * lanes<float>, sums[i][v]);
        }
        for (int j = i + 1; j < kGroup; ++j)
            for (int v = 0; v < kStripVectors; ++v) sums[j][v] -= broadcast(row[j]) * sums[i][v];
    }
}

// Rows of a strip that cross the diagonal, in its columns from `first` on.
bool factor_group(float* tile, std::size_t first) {
    for (std::size_t i = 0; i < kRows; ++i) {
        float* const row = tile + i * kStrip;
        const float pivot = row[first + i];
        if (!(pivot > 0.0f && pivot < 3e38f)) return false;
        const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(pivot)));
        for (std::size_t k = 0; k < kStrip; k += lanes<float>)
            store(row + k, load(row + k) * broadcast(scale));
        for (std::size_t j = i + 1; j < kRows; ++j) {
            float* const other = tile + j * kStrip;
            const Vector<float> share = broadcast(row[first + j]);
            for (std::size_t k = 0; k < kStrip; k += lanes<float>)
                store(other + k, load(other + k) - share * load(row + k));
        }
        for (std::size_t k = 0; k < first + i; ++k) row[k] = 0.0f;
        row[first + i] = scale;
    }
    return true;
}

// Rows first .. last - 1 of a strip, once all that the rows before `first` add to them is there.
bool finish_strip(float* matrix, std::size_t strip, std::size_t first, std::size_t last) {
    const float* const right = row_of(matrix, first, strip);
    for (std::size_t row = first; row < last; row += kRows) {
        const std::size_t own = row / kStrip, column = row % kStrip;
        const float* const left = row_of(matrix, first, own) + column;
        float* const tile = row_of(matrix, row, strip);
        if (own < strip) {
            solve_group(left, right, row - first, row_of(matrix, row, own) + column, tile);
        } else {
            subtract_product(left, right, row - first, tile);
            if (!factor_group(tile, column)) return false;
        }
    }
    return true;
}

constexpr std::size_t least(std::size_t a, std::size_t b) {
    return a < b ? a : b;
}

bool factor(float* matrix, std::size_t strips, std::size_t rows) {
    for (std::size_t block = 0; block < strips; block += kBlock) {
        const std::size_t after = least(block + kBlock, strips), first = block * kStrip;
        for (std::size_t s = block; s < strips; ++s)
            if (!finish_strip(matrix, s, first, least(least(after, s + 1) * kStrip, rows)))
                return false;
        for (std::size_t far = after; far < strips; far += kFar)
            for (std::size_t s = far; s < strips; ++s) {
                const float* const right = row_of(matrix, first, s);
                const std::size_t end = least(least(far + kFar, s + 1) * kStrip, rows);
                for (std::size_t row = far * kStrip; row < end; row += kRows)
                    subtract_product(row_of(matrix, first, row / kStrip) + row % kStrip, right,
                                     (after - block) * kStrip, row_of(matrix, row, s));
            }
    }
    return true;
}

}  // namespace
}  // namespace mercer
