// Products of kernel matrices that are never held: every tile is made, multiplied and forgotten.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "kernel_block.hpp"

namespace mercer {

// points += k(x, y) * weights and, if wanted, landmarks += k(y, x) * point_weights. Where y is x
// the matrix is symmetric, and every pair is made once.
template <class In, class S>
struct ProductWork {
    KernelWork<In> kernel;  // without out
    std::size_t k;
    const S* weights;        // (m, k)
    double* points;          // (n, k)
    const S* point_weights;  // (n, k) or null
    double* landmarks;       // (m, k) or null
    bool symmetric;          // x is y; the last two are null
};

// Columns of weights that sum_columns takes together; those beyond `taken` are zeros.
struct WeightGroup {
    std::size_t first, count, taken;
};

template <class T, class In, class S>
class KernelProduct {
  public:
    KernelProduct(const KernelLoops<T, In>& loops, const ProductLoops<In, S>& products,
                  const ProductWork<In, S>& work, int n_threads)
        : loops_(loops), products_(products), work_(work), d_(work.kernel.d), k_(work.k),
          n_threads_(std::max(n_threads, 1)), scale_(work.kernel.scale, work.kernel.scale + d_),
          rows_(loops, work_.kernel, loops.left_width, work.kernel.m) {
        for (std::size_t first = 0; first < k_;) {
            const std::size_t count = products.weights_at_once(k_ - first);
            groups_.push_back({first, count, std::min(count, k_ - first)});
            padded_ += count;
            first += count;
        }
        const std::size_t of_item = kItemBytes / sizeof(T) / std::max<std::size_t>(d_, 1);
        const std::size_t fair = work.kernel.n / (4 * static_cast<std::size_t>(n_threads_));
        item_ = std::clamp(std::min(of_item, fair) / kKernelRows, std::size_t{1}, kMostBlocks) *
                kKernelRows;
    }

    // False, with the results undefined, if squared distances overflow.
    bool run() {
        pack_rows();
        if (!small_) return false;
        const std::size_t n_items = (work_.kernel.n + item_ - 1) / item_;
        const bool both = work_.symmetric || work_.point_weights;
        std::vector<std::vector<double>> of_rows(both ? static_cast<std::size_t>(n_threads_) : 0);
        // Which thread adds to which sums is settled beforehand: the result depends on no race.
        on_threads(n_threads_, [&](int thread) {
            Room room(*this, both);
            double* sums = nullptr;
            if (both) {
                auto& own = of_rows[static_cast<std::size_t>(thread)];
                own.assign(work_.kernel.m * k_, 0.0);
                sums = own.data();
            }
            const auto step = static_cast<std::size_t>(n_threads_), t = std::size_t(thread);
            for (std::size_t item = 0; item < n_items; ++item) {
                const std::size_t turn = item % (2 * step);
                if (turn == t || turn == 2 * step - 1 - t) make_item(item, room, sums);
            }
        });
        if (!small_) return false;
        double* const out = work_.symmetric ? work_.points : work_.landmarks;
        for (const auto& sums : of_rows)
            for (std::size_t i = 0; i < sums.size(); ++i) out[i] += sums[i];
        return true;
    }

  private:
    static constexpr std::size_t kItemBytes = kNearBytes / 2;
    static constexpr std::size_t kMostBlocks = 8;

    // What one thread works in.
    struct Room {
        Room(const KernelProduct& product, bool both)
            : columns(product.loops_, product.work_.kernel, product.loops_.right_width,
                      product.item_),
              tile(kKernelRows * product.products_.panel), sums(product.item_ * product.padded_),
              column_weights(both ? product.item_ * product.k_ : 0),
              lanes(both ? kKernelRows * product.k_ * product.products_.lanes : 0) {}
        PackedRows<T, In> columns;
        std::vector<In> tile;
        std::vector<double> sums;       // (panels, padded, panel)
        std::vector<S> column_weights;  // (panels, k, panel)
        std::vector<S> lanes;           // (kKernelRows, k, lanes)
    };

    void pack_rows() {
        const std::size_t width = loops_.left_width, m = work_.kernel.m;
        weights_.resize(m * padded_);
        parallel_for((m + kKernelRows - 1) / kKernelRows, n_threads_, [&](std::size_t b, int) {
            const std::size_t first = b * kKernelRows, last = std::min(first + kKernelRows, m);
            for (std::size_t i = first; i < last; i += width)
                if (!rows_.pack(i / width, work_.kernel.y + i * d_, std::min(width, last - i)))
                    small_ = false;
            S* to = weights_.data() + first * padded_;
            for (const WeightGroup& group : groups_)
                for (std::size_t i = first; i < last; ++i, to += group.count)
                    std::copy_n(work_.weights + i * k_ + group.first, group.taken, to);
        });
    }

    // Some points against all landmarks; where the matrix is symmetric, against those before them.
    void make_item(std::size_t item, Room& room, double* of_rows) {
        const std::size_t first = item * item_, last = std::min(first + item_, work_.kernel.n);
        const std::size_t width = loops_.right_width, panel = products_.panel;
        for (std::size_t j = first; j < last; j += width)
            if (!room.columns.pack((j - first) / width, work_.kernel.x + j * d_,
                                   std::min(width, last - j)))
                small_ = false;
        if (!small_) return;
        std::fill(room.sums.begin(), room.sums.end(), 0.0);
        const S* const weights = work_.symmetric ? work_.weights : work_.point_weights;
        if (of_rows) order_weights(weights, first, last, room.column_weights.data());
        const std::size_t end = work_.symmetric ? last : work_.kernel.m;
        for (std::size_t i = 0; i < end; i += kKernelRows) {
            const std::size_t rows = std::min(kKernelRows, work_.kernel.m - i);
            // Of a symmetric matrix the tiles on and below the diagonal; the latter count twice.
            const std::size_t start = work_.symmetric ? std::max(first, i) : first;
            for (std::size_t j = start; j < last; j += panel) {
                const std::size_t p = (j - first) / panel, columns = std::min(panel, last - j);
                make_tile(i, rows, j, columns, j - first, room);
                add_columns(i, rows, room.tile.data(), room.sums.data() + p * padded_ * panel);
                if (of_rows && (!work_.symmetric || j >= i + kKernelRows))
                    products_.sum_rows(room.tile.data(), rows,
                                       room.column_weights.data() + p * k_ * panel, k_,
                                       room.lanes.data());
            }
            if (of_rows) products_.join_lanes(room.lanes.data(), rows * k_, of_rows + i * k_);
        }
        keep_sums(first, last, room);
    }

    void make_tile(std::size_t i, std::size_t rows, std::size_t j, std::size_t columns,
                   std::size_t place, Room& room) {
        const KernelWork<In>& kernel = work_.kernel;
        const std::size_t panel = products_.panel, width = loops_.right_width;
        if (columns < panel) std::fill(room.tile.begin(), room.tile.end(), In(0));
        for (std::size_t q = 0; q < columns; q += width)
            loops_.tile(kernel.kind,
                        {rows_.numbers.data() + i * d_,
                         room.columns.numbers_of((place + q) / width), rows_.squares.data() + i,
                         room.columns.squares.data() + place + q, kernel.y + i * d_,
                         kernel.x + (j + q) * d_, kernel.scale, scale_.data(), d_, rows,
                         std::min(width, columns - q), static_cast<T>(kernel.parameter),
                         room.tile.data() + q, panel});
    }

    // sums (padded, panel) += the tile's columns times the weights of its rows
    void add_columns(std::size_t i, std::size_t rows, const In* tile, double* sums) {
        const S* weights = weights_.data() + i * padded_;
        for (const WeightGroup& group : groups_) {
            products_.sum_columns(group.count, tile, rows, weights, sums);
            weights += rows * group.count;
            sums += group.count * products_.panel;
        }
    }

    // Weights of the points first .. last - 1 as (panels, k, panel), filled up with zeros.
    void order_weights(const S* weights, std::size_t first, std::size_t last, S* to) const {
        const std::size_t panel = products_.panel;
        for (std::size_t j = first; j < last; j += panel)
            for (std::size_t c = 0; c < k_; ++c)
                for (std::size_t q = 0; q < panel; ++q)
                    *to++ = j + q < last ? weights[(j + q) * k_ + c] : S(0);
    }

    void keep_sums(std::size_t first, std::size_t last, const Room& room) {
        const std::size_t panel = products_.panel;
        for (std::size_t j = first; j < last; ++j) {
            const std::size_t p = (j - first) / panel;
            const double* const sums = room.sums.data() + p * padded_ * panel + (j - first) % panel;
            for (std::size_t c = 0; c < k_; ++c) work_.points[j * k_ + c] += sums[c * panel];
        }
    }

    const KernelLoops<T, In>& loops_;
    const ProductLoops<In, S>& products_;
    const ProductWork<In, S> work_;
    const std::size_t d_, k_;
    const int n_threads_;
    std::size_t padded_ = 0, item_ = 0;
    std::vector<WeightGroup> groups_;
    const std::vector<T> scale_;
    PackedRows<T, In> rows_;  // the landmarks
    std::vector<S> weights_;  // theirs: for every kKernelRows rows, group after group
    std::atomic<bool> small_{true};
};

template <class T, class In, class S>
bool multiply(const KernelLoops<T, In>& loops, const ProductLoops<In, S>& products,
              const ProductWork<In, S>& work, int n_threads) {
    return KernelProduct<T, In, S>(loops, products, work, n_threads).run();
}

// False, with the results undefined, if squared distances overflow.
template <class In, class S>
bool kernel_product(const ProductWork<In, S>& work, Accuracy accuracy, int n_threads) {
    const KernelTables& tables = kernel_loops();
    const KernelWork<In>& kernel = work.kernel;
    if (kernel.n == 0 || kernel.m == 0 || work.k == 0) return true;
    if (kernel.n * kernel.m * (kernel.d + work.k + 20) < 5 * kWorthThreads) n_threads = 1;
    if constexpr (sizeof(In) == 8) {
        return multiply(tables.f64, tables.product_f64, work, n_threads);
    } else {
        const ProductLoops<In, S>* products;
        if constexpr (sizeof(S) == 8)
            products = &tables.product_f32_in_f64;
        else
            products = &tables.product_f32;
        if (is_right_in_float32(kernel, accuracy, n_threads))
            return multiply(tables.f32, *products, work, n_threads);
        return multiply(tables.f32_in_f64, *products, work, n_threads);
    }
}

}  // namespace mercer
