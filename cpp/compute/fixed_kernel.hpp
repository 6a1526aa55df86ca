// A symmetric kernel matrix held in numbers of 16 or 31 bits, and its products.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel_tiles.hpp"
#include "tile_sums.hpp"

namespace mercer {

// Entries lie in [0, 1]: number c stands for c / kMostFixed, so that an entry is wrong by half of a
// unit at most, whatever the others are. Of the matrix there are the square blocks on and above the
// diagonal, column of blocks after column; a block is a row of tiles, a panel wide, as sum_columns
// wants them, and zeros fill up the last ones.
constexpr std::size_t kBlockSize = kKernelRows * kKernelRows;

inline std::size_t first_block(std::size_t column) {
    return column * (column + 1) / 2;
}
inline std::size_t n_blocks(std::size_t n) {
    return (n + kKernelRows - 1) / kKernelRows;
}
// How many numbers the matrix of n rows takes.
inline std::size_t fixed_size(std::size_t n) {
    return first_block(n_blocks(n)) * kBlockSize;
}

template <class T, class In>
bool write_fixed(const KernelLoops<T, In>& loops, const KernelWork<In>& work, Fixed<In>* fixed,
                 int n_threads) {
    const KernelTables& tables = kernel_loops();
    const std::size_t n = work.n, panel = tables.product<In>().panel;
    KernelTiles<T, In> tiles(loops, work, panel);
    if (!tiles.pack_rows(n_threads)) return false;
    std::atomic<bool> small{true};
    parallel_for(n_blocks(n), n_threads, [&](std::size_t item, int) {
        const std::size_t b = n_blocks(n) - 1 - item;  // the longest column first
        const std::size_t first = b * kKernelRows, last = std::min(first + kKernelRows, n);
        auto columns = tiles.columns_for(kKernelRows);
        std::vector<In> tile(kKernelRows * panel);
        if (!tiles.pack_columns(first, last, columns)) small = false;
        if (!small) return;
        Fixed<In>* to = fixed + first_block(b) * kBlockSize;
        for (std::size_t i = 0; i < last; i += kKernelRows)
            for (std::size_t j = first; j < first + kKernelRows; j += panel) {
                const std::size_t rows = std::min(kKernelRows, n - i);
                const std::size_t count = j < last ? std::min(panel, last - j) : 0;
                if (rows < kKernelRows) std::fill(tile.begin(), tile.end(), In(0));
                tiles.make(i, rows, j, count, first, columns, tile.data());
                tables.fixed<In>().to_fixed(tile.data(), kKernelRows * panel, to);
                to += kKernelRows * panel;
            }
    });
    return small;
}

// Writes the numbers of the kernel of rows x; false, with these undefined, if squared distances
// overflow. Its values must lie in [0, 1].
template <class In>
bool fixed_kernel(const KernelWork<In>& work, Fixed<In>* fixed, int n_threads) {
    const KernelTables& tables = kernel_loops();
    if constexpr (sizeof(In) == 8) {
        return write_fixed(tables.f64, work, fixed, n_threads);
    } else {
        const Arithmetic arithmetic = arithmetic_of(work, Accuracy::single, n_threads);
        if (arithmetic == Arithmetic::wide)
            return write_fixed(tables.f32_in_f64, work, fixed, n_threads);
        std::vector<double> usual;
        KernelWork<float> narrow = with_few_inputs(work, usual);
        narrow.differences = arithmetic == Arithmetic::differences;
        return write_fixed(tables.f32, narrow, fixed, n_threads);
    }
}

// out (n, k) += K w for the matrix of these numbers; sums of a few hundred terms have the type T of
// the weights.
template <class T>
struct FixedWork {
    const Fixed<T>* fixed;
    std::size_t n, k;
    const T* weights;  // (n, k)
    double* out;       // (n, k)
};

template <class T>
class FixedProduct {
  public:
    FixedProduct(const FixedWork<T>& work, int n_threads)
        : work_(work), panel_(kernel_loops().product<T>().panel), n_threads_(n_threads),
          item_(item_size(work.n, n_threads)),
          sums_(kernel_loops().product<T>(), work.k, item_, at_once) {}

    void run() {
        const std::size_t n = work_.n, n_items = (n + item_ - 1) / item_;
        sums_.set_row_weights(work_.weights, n, n_threads_);
        std::vector<std::vector<double>> of_rows(static_cast<std::size_t>(n_threads_));
        on_threads(n_threads_, [&](int thread) {
            Room room(sums_, true);
            auto& own = of_rows[static_cast<std::size_t>(thread)];
            own.assign(n * work_.k, 0.0);
            for (std::size_t item = 0; item < n_items; ++item)
                if (is_item_of(item, thread, n_threads_)) add_item(item, room, own.data());
        });
        for (const auto& own : of_rows)
            for (std::size_t i = 0; i < own.size(); ++i) work_.out[i] += kUnit * own[i];
    }

  private:
    using Room = typename TileSums<T, T>::Room;
    static constexpr double kUnit = 1.0 / static_cast<double>(kMostFixed<T>);
    static constexpr std::size_t kMostBlocks = 8;  // of an item: sums of rows are joined after it

    static std::size_t item_size(std::size_t n, int n_threads) {
        const std::size_t fair = n / (8 * static_cast<std::size_t>(n_threads));
        return std::clamp(fair / kKernelRows, std::size_t{1}, kMostBlocks) * kKernelRows;
    }

    static std::size_t at_once(std::size_t left) { return std::min(left, kFixedWeights); }

    // Some columns against all rows up to theirs.
    void add_item(std::size_t item, Room& room, double* of_rows) const {
        const std::size_t first = item * item_, last = std::min(first + item_, work_.n);
        const std::size_t end = n_blocks(last);
        sums_.begin(first, last, work_.weights, room);
        for (std::size_t i = 0; i < last; i += kKernelRows) {
            const std::size_t rows = std::min(kKernelRows, work_.n - i), b = i / kKernelRows;
            for (std::size_t g = 0; g < sums_.n_groups(); ++g) {
                for (std::size_t c = std::max(first / kKernelRows, b); c < end; ++c)
                    add_block(b, c, g, first, last, room);
                sums_.join_group(i, rows, g, room, of_rows);
            }
        }
        sums_.end(first, last, room, kUnit, work_.out);
    }

    // Block b of column c, of an item of the columns first .. last - 1, by a group of weights.
    void add_block(std::size_t b, std::size_t c, std::size_t group, std::size_t first,
                   std::size_t last, Room& room) const {
        const FixedLoops<T>& loops = kernel_loops().fixed<T>();
        const std::size_t i = b * kKernelRows, rows = std::min(kKernelRows, work_.n - i);
        const std::size_t end = std::min((c + 1) * kKernelRows, last);
        const Fixed<T>* from = work_.fixed + (first_block(c) + b) * kBlockSize;
        for (std::size_t j = c * kKernelRows; j < end; j += panel_, from += kKernelRows * panel_)
            sums_.add_fixed(loops, from, i, rows, (j - first) / panel_, group, b < c, room);
    }

    const FixedWork<T> work_;
    const std::size_t panel_;
    const int n_threads_;
    const std::size_t item_;
    TileSums<T, T> sums_;
};

template <class T>
void fixed_product(const FixedWork<T>& work, int n_threads) {
    if (work.n == 0 || work.k == 0) return;
    if (work.n * work.n * (work.k + 3) < 5 * kWorthThreads) n_threads = 1;
    FixedProduct<T>(work, std::max(n_threads, 1)).run();
}

}  // namespace mercer
