// Z' diag(weights) Z of a tall matrix: sums of short products in its own type, joined in float64.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

template <class T>
struct GramWork {
    const T* matrix;  // (n, d), or (d, n) if transposed
    std::size_t n, d;
    bool transposed;
    const double* weights;  // (n) or null
    double* out;            // (d, d), symmetric, added to
};

// Chunk by chunk of rows, all columns are packed, and then every square of the result passes over
// them. Every number is summed up by one thread in one order.
template <class T>
class Gram {
  public:
    Gram(const GramLoops<T>& loops, const GramWork<T>& work, int n_threads)
        : loops_(loops), work_(work), d_(work.d),
          n_threads_(work.n * d_ * d_ < 2000000 ? 1 : std::max(n_threads, 1)),
          side_(d_ >= 4 * kSide * static_cast<std::size_t>(n_threads_) ? 2 * kSide : kSide),
          across_((d_ + side_ - 1) / side_),
          chunk_(std::clamp(kChunkBytes / (2 * sizeof(T) * (d_ + 1)) / kJoined, std::size_t{1},
                            (work.n + kJoined - 1) / kJoined + 1) *
                 kJoined),
          left_(new T[across_ * side_ * chunk_]), right_(new T[across_ * side_ * chunk_]),
          totals_(new T[static_cast<std::size_t>(n_threads_) * side_ * side_]) {}

    void run() {
        for (std::size_t first = 0; first < work_.n; first += chunk_) {
            const std::size_t rows = std::min(chunk_, work_.n - first);
            parallel_for(across_, n_threads_,
                         [&](std::size_t i, int) { pack(i * side_, first, rows); });
            parallel_for(across_ * (across_ + 1) / 2, n_threads_,
                         [&](std::size_t item, int thread) {
                             std::size_t i = 0;
                             while ((i + 1) * (i + 2) / 2 <= item) ++i;
                             add(i * side_, (item - i * (i + 1) / 2) * side_, rows,
                                 totals_.get() + static_cast<std::size_t>(thread) * side_ * side_);
                         });
        }
        for (std::size_t i = 0; i < d_; ++i)
            for (std::size_t j = 0; j < i; ++j) work_.out[j * d_ + i] = work_.out[i * d_ + j];
    }

  private:
    static constexpr std::size_t kChunkBytes = 4 << 20;  // in a cache that cores share
    static constexpr std::size_t kSide = 96;             // of a square: a multiple of every panel
    static constexpr std::size_t kDepth = 128;           // rows of panels in the nearest cache
    static constexpr std::size_t kJoined = 8 * kDepth;   // rows summed up in T

    void pack(std::size_t first_column, std::size_t first, std::size_t rows) {
        const std::size_t row_step = work_.transposed ? 1 : d_;
        const std::size_t column_step = work_.transposed ? work_.n : 1;
        const auto pack_side = [&](std::size_t width, const double* weights, T* panels) {
            for (std::size_t j = first_column; j < first_column + side_; j += width) {
                const std::size_t count = j < d_ ? std::min(width, d_ - j) : 0;
                if (count == 0) continue;  // never read
                loops_.pack({work_.matrix + first * row_step + j * column_step, row_step,
                             column_step, weights ? weights + first : nullptr},
                            rows, count, width, panels + j * chunk_);
            }
        };
        pack_side(loops_.left_width, work_.weights, left_.get());
        pack_side(loops_.right_width, nullptr, right_.get());
    }

    // Adds the rows that are packed to the square of columns (i, j); of a square on the diagonal,
    // to what is below the diagonal at least.
    void add(std::size_t i, std::size_t j, std::size_t rows, T* totals) {
        const std::size_t height = std::min(side_, d_ - i), width = std::min(side_, d_ - j);
        const std::size_t tall = loops_.left_width, wide = loops_.right_width;
        for (std::size_t start = 0; start < rows; start += kJoined) {
            std::fill_n(totals, side_ * side_, T(0));
            const std::size_t end = std::min(start + kJoined, rows);
            for (std::size_t row = start; row < end; row += kDepth)
                for (std::size_t b = 0; b < width; b += wide)
                    for (std::size_t a = 0; a < height; a += tall)
                        if (i + a + tall > j + b)
                            loops_.tile(left_.get() + (i + a) * chunk_ + row * tall,
                                        right_.get() + (j + b) * chunk_ + row * wide,
                                        std::min(kDepth, end - row), totals + a * side_ + b, side_);
            for (std::size_t a = 0; a < height; ++a) {
                double* const out = work_.out + (i + a) * d_ + j;
                for (std::size_t b = 0; b < width; ++b)
                    out[b] += static_cast<double>(totals[a * side_ + b]);
            }
        }
    }

    const GramLoops<T>& loops_;
    const GramWork<T>& work_;
    const std::size_t d_;
    const int n_threads_;
    const std::size_t side_, across_, chunk_;
    const std::unique_ptr<T[]> left_, right_, totals_;  // every number is written before it is read
};

template <class T>
void gram(const GramWork<T>& work, int n_threads) {
    if (work.n && work.d) Gram<T>(gram_loops<T>(), work, n_threads).run();
}

}  // namespace mercer
