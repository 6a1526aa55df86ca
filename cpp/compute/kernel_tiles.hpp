// Tiles of the kernel between two sets of rows, both of which are packed once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "kernel_block.hpp"

namespace mercer {

// Tiles of k(y, x): landmarks y are their rows, kKernelRows of them, points x their columns.
template <class T, class In>
class KernelTiles {
  public:
    using Columns = PackedRows<T, In>;

    // `panel` is the number of columns of a tile, a multiple of loops.right_width.
    KernelTiles(const KernelLoops<T, In>& loops, const KernelWork<In>& work, std::size_t panel)
        : loops_(loops), work_(work), panel_(panel), scale_(work.scale, work.scale + work.d),
          rows_(loops, work, loops.left_width, work.m) {}

    // Packs the landmarks; false if squared distances overflow.
    bool pack_rows(int n_threads) {
        const std::size_t width = loops_.left_width, m = work_.m;
        std::atomic<bool> small{true};
        nonzeros_.resize(work_.usual ? (m + kKernelRows - 1) / kKernelRows : 0);
        parallel_for((m + kKernelRows - 1) / kKernelRows, n_threads, [&](std::size_t b, int) {
            const std::size_t first = b * kKernelRows, last = std::min(first + kKernelRows, m);
            for (std::size_t i = first; i < last; i += width)
                if (!rows_.pack(i / width, work_.y + i * work_.d, std::min(width, last - i)))
                    small = false;
            if (work_.usual)
                nonzeros_[b].find(rows_.numbers.data() + first * work_.d, last - first, work_.d,
                                  width);
        });
        return small;
    }

    // Room for the packed columns of some tiles: for `most` points.
    Columns columns_for(std::size_t most) const {
        return {loops_, work_, loops_.right_width, most};
    }
    // Packs the points first .. last - 1; false if squared distances overflow.
    bool pack_columns(std::size_t first, std::size_t last, Columns& columns) const {
        const std::size_t width = loops_.right_width;
        bool small = true;
        for (std::size_t j = first; j < last; j += width)
            small &=
                columns.pack((j - first) / width, work_.x + j * work_.d, std::min(width, last - j));
        return small;
    }

    // The tile of landmarks i .. i + rows - 1 and points j .. j + count - 1, of which there are a
    // panel at most; columns begin at point `first`. What the points do not fill is 0.
    void make(std::size_t i, std::size_t rows, std::size_t j, std::size_t count, std::size_t first,
              Columns& columns, In* tile) {
        const std::size_t width = loops_.right_width, d = work_.d;
        const NonZeros<T>* const nonzeros = work_.usual ? &nonzeros_[i / kKernelRows] : nullptr;
        if (count < panel_) std::fill_n(tile, rows * panel_, In(0));
        for (std::size_t q = 0; q < count; q += width)
            loops_.tile(work_.kind,
                        {rows_.numbers.data() + i * d, columns.numbers_of((j - first + q) / width),
                         rows_.squares.data() + i, columns.squares.data() + (j - first) + q,
                         work_.y + i * d, work_.x + (j + q) * d, work_.scale, scale_.data(), d,
                         rows, std::min(width, count - q), static_cast<T>(work_.parameter),
                         tile + q, panel_, nonzeros ? nonzeros->starts.data() : nullptr,
                         nonzeros ? nonzeros->places.data() : nullptr,
                         nonzeros ? nonzeros->values.data() : nullptr, work_.differences,
                         work_.fine});
    }

  private:
    const KernelLoops<T, In>& loops_;
    const KernelWork<In>& work_;
    const std::size_t panel_;
    const std::vector<T> scale_;
    PackedRows<T, In> rows_;
    std::vector<NonZeros<T>> nonzeros_;  // of every kKernelRows rows, if sums are over few inputs
};

}  // namespace mercer
