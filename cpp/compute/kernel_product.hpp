// Products of kernel matrices that are never held: every tile is made, multiplied and forgotten.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "kernel_tiles.hpp"
#include "laplacian_product.hpp"
#include "tile_sums.hpp"

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

template <class T, class In, class S>
class KernelProduct {
  public:
    KernelProduct(const KernelLoops<T, In>& loops, const ProductLoops<In, S>& products,
                  const ProductWork<In, S>& work, int n_threads)
        : work_(work), n_threads_(std::max(n_threads, 1)), panel_(products.panel),
          item_(item_size(work.kernel, n_threads_)), tiles_(loops, work_.kernel, panel_),
          sums_(products, work.k, item_, products.weights_at_once) {}

    // False, with the results undefined, if squared distances overflow.
    bool run() {
        const std::size_t n = work_.kernel.n, m = work_.kernel.m;
        small_ = tiles_.pack_rows(n_threads_);
        if (!small_) return false;
        sums_.set_row_weights(work_.weights, m, n_threads_);
        const std::size_t n_items = (n + item_ - 1) / item_;
        const bool both = work_.symmetric || work_.point_weights;
        std::vector<std::vector<double>> of_rows(both ? static_cast<std::size_t>(n_threads_) : 0);
        on_threads(n_threads_, [&](int thread) {
            Room room{tiles_.columns_for(item_), {sums_, both}};
            double* sums = nullptr;
            if (both) {
                auto& own = of_rows[static_cast<std::size_t>(thread)];
                own.assign(m * work_.k, 0.0);
                sums = own.data();
            }
            for (std::size_t item = 0; item < n_items; ++item)
                if (is_item_of(item, thread, n_threads_)) make_item(item, room, sums);
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
        PackedRows<T, In> columns;
        typename TileSums<In, S>::Room sums;
    };

    static std::size_t item_size(const KernelWork<In>& kernel, int n_threads) {
        const std::size_t of_bytes = kItemBytes / sizeof(T) / std::max<std::size_t>(kernel.d, 1);
        const std::size_t fair = kernel.n / (4 * static_cast<std::size_t>(n_threads));
        return std::clamp(std::min(of_bytes, fair) / kKernelRows, std::size_t{1}, kMostBlocks) *
               kKernelRows;
    }

    // Some points against all landmarks; where the matrix is symmetric, against those before them.
    void make_item(std::size_t item, Room& room, double* of_rows) {
        const std::size_t first = item * item_, last = std::min(first + item_, work_.kernel.n);
        if (!tiles_.pack_columns(first, last, room.columns)) small_ = false;
        if (!small_) return;
        sums_.begin(first, last, work_.symmetric ? work_.weights : work_.point_weights, room.sums);
        const std::size_t end = work_.symmetric ? last : work_.kernel.m;
        for (std::size_t i = 0; i < end; i += kKernelRows) {
            const std::size_t rows = std::min(kKernelRows, work_.kernel.m - i);
            // Of a symmetric matrix the tiles on and below the diagonal; the latter count twice.
            const std::size_t start = work_.symmetric ? std::max(first, i) : first;
            for (std::size_t j = start; j < last; j += panel_) {
                const std::size_t p = (j - first) / panel_;
                tiles_.make(i, rows, j, std::min(panel_, last - j), first, room.columns,
                            room.sums.tile.data());
                sums_.add_to_columns(i, rows, p, room.sums);
                if (of_rows && (!work_.symmetric || j >= i + kKernelRows))
                    sums_.add_to_rows(rows, p, room.sums);
            }
            if (of_rows) sums_.join_rows(i, rows, room.sums, of_rows);
        }
        sums_.end(first, last, room.sums, 1.0, work_.points);
    }

    const ProductWork<In, S> work_;
    const int n_threads_;
    const std::size_t panel_, item_;
    KernelTiles<T, In> tiles_;
    TileSums<In, S> sums_;
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
        const bool one_way = !work.symmetric && !work.point_weights;
        if (one_way && suits_exponentials(kernel, n_threads)) {
            add_laplacians(kernel, work.weights, work.k, work.points, n_threads);
            return true;
        }
        return multiply(tables.f64, tables.product_f64, work, n_threads);
    } else {
        const ProductLoops<In, S>* products;
        if constexpr (sizeof(S) == 8)
            products = &tables.product_f32_in_f64;
        else
            products = &tables.product_f32;
        const Arithmetic arithmetic = arithmetic_of(kernel, accuracy, n_threads);
        if (arithmetic == Arithmetic::wide)
            return multiply(tables.f32_in_f64, *products, work, n_threads);
        std::vector<double> usual;
        ProductWork<In, S> of_few = work;
        if (accuracy == Accuracy::single) of_few.kernel = with_few_inputs(kernel, usual);
        of_few.kernel.differences = arithmetic == Arithmetic::differences;
        of_few.kernel.fine = accuracy == Accuracy::full;
        return multiply(tables.f32, *products, of_few, n_threads);
    }
}

}  // namespace mercer
