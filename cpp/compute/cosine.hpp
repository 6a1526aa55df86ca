// Random Fourier features: cosines of X frequencies', made in blocks that never leave the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "isa.hpp"
#include "kernel_block.hpp"
#include "parallel.hpp"

namespace mercer {

template <class T>
struct Cosines {
    const T* points;       // (n, d)
    const T* frequencies;  // (m, d)
    const T* phases;       // (m), or null for pairs of cosine and sine
    std::size_t n, d, m;
    T scale;
    T* out;  // (n, m), or (n, 2 m) for pairs

    std::size_t out_step() const { return phases ? m : 2 * m; }
};

// The frequencies of some cosines packed in panels, and tiles of rows against one panel.
template <class T>
class CosineTiles {
  public:
    CosineTiles(const Cosines<T>& work, int n_threads)
        : right(loops_.right_width), panels((work.m + right - 1) / right), work_(work),
          frequencies_(panels * right * work.d), phases_(work.phases ? panels * right : 0) {
        // Angles in half-turns from the start: their whole part is then taken off without rounding.
        constexpr double half_turns = 0.318309886183790671538;
        parallel_for(panels, n_threads, [&](std::size_t p, int) {
            const std::size_t count = columns_of(p), d = work_.d;
            loops_.pack_panel(work_.frequencies + p * right * d, count, d, right, half_turns,
                              frequencies_.data() + p * right * d);
            if (work_.phases)
                loops_.pack_panel(work_.phases + p * right, count, 1, right, half_turns,
                                  phases_.data() + p * right);
        });
    }

    // Rows from `first` on, kCosineRows at most, into points (kCosineRows, d).
    void pack_points(std::size_t first, std::size_t rows, T* points) const {
        const std::size_t left = loops_.left_width, d = work_.d;
        for (std::size_t i = 0; i < rows; i += left)
            loops_.pack_panel(work_.points + (first + i) * d, std::min(left, rows - i), d, left,
                              1.0, points + i * d);
    }
    // Cosines of packed points with panel p.
    void make(const T* points, std::size_t rows, std::size_t p, T* out, std::size_t step) const {
        loops_.tile({points, frequencies_.data() + p * right * work_.d,
                     work_.phases ? phases_.data() + p * right : nullptr, work_.d, rows,
                     columns_of(p), work_.scale, out, step});
    }
    std::size_t columns_of(std::size_t p) const { return std::min(right, work_.m - p * right); }
    // While the frequencies stay in a near cache, few rows at a time write their results in order.
    std::size_t strip() const {
        return frequencies_.size() * sizeof(T) <= kNearBytes ? loops_.left_width : kCosineRows;
    }

  private:
    const CosineLoops<T>& loops_ = cosine_loops<T>();

  public:
    const std::size_t right, panels;  // columns of a panel, and panels

  private:
    const Cosines<T>& work_;
    std::vector<T> frequencies_, phases_;
};

template <class T>
void cosine_block(const Cosines<T>& work, int n_threads) {
    const std::size_t n = work.n, d = work.d, m = work.m;
    if (n == 0 || m == 0) return;
    if (n * m * (d + 10) < 200000) n_threads = 1;
    const CosineTiles<T> tiles(work, n_threads);
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    std::vector<std::vector<T>> packed(threads, std::vector<T>(kCosineRows * d));
    parallel_for((n + kCosineRows - 1) / kCosineRows, n_threads, [&](std::size_t b, int thread) {
        const std::size_t first = b * kCosineRows, rows = std::min(kCosineRows, n - first);
        T* points = packed[static_cast<std::size_t>(thread)].data();
        tiles.pack_points(first, rows, points);
        const std::size_t strip = tiles.strip(), width = work.out_step() / m;
        for (std::size_t start = 0; start < rows; start += strip)
            for (std::size_t p = 0; p < tiles.panels; ++p)
                tiles.make(points + start * d, std::min(strip, rows - start), p,
                           work.out + (first + start) * work.out_step() + p * tiles.right * width,
                           work.out_step());
    });
}

// sums (n, k) += cosines (n, m), with phases, times weights (m, k): cosines stay in the nearest
// cache. `out` of the work is not used. A row's sums do not depend on the others.
template <class T>
void cosine_product(const Cosines<T>& work, const double* weights, std::size_t k, double* sums,
                    int n_threads) {
    const std::size_t n = work.n, d = work.d, m = work.m;
    if (n == 0 || m == 0 || k == 0) return;
    if (n * m * (d + 10) < 200000) n_threads = 1;
    const CosineTiles<T> tiles(work, n_threads);
    const ProductLoops<T, double>& products = kernel_loops().template product_in_f64<T>();
    const std::size_t right = tiles.right;  // which is the panel of the products
    std::vector<double> of_panels(tiles.panels * k * right);
    for (std::size_t j = 0; j < m; ++j)
        for (std::size_t c = 0; c < k; ++c)
            of_panels[(j / right * k + c) * right + j % right] = weights[j * k + c];
    struct Room {
        std::vector<T> points, tile;
        std::vector<double> lanes;
    };
    std::vector<Room> rooms(static_cast<std::size_t>(std::max(n_threads, 1)),
                            {std::vector<T>(kCosineRows * d), std::vector<T>(kCosineRows * right),
                             std::vector<double>(kCosineRows * k * products.lanes)});
    parallel_for((n + kCosineRows - 1) / kCosineRows, n_threads, [&](std::size_t b, int thread) {
        const std::size_t first = b * kCosineRows, rows = std::min(kCosineRows, n - first);
        auto& [points, tile, lanes] = rooms[static_cast<std::size_t>(thread)];
        tiles.pack_points(first, rows, points.data());
        for (std::size_t p = 0; p < tiles.panels; ++p) {
            tiles.make(points.data(), rows, p, tile.data(), right);
            products.sum_rows(tile.data(), rows, of_panels.data() + p * k * right, k, lanes.data());
        }
        products.join_lanes(lanes.data(), rows * k, sums + first * k);
    });
}

// values (n, m) = scale * cos(values + phases)
template <class T>
void cosine_inplace(T* values, const T* phases, std::size_t n, std::size_t m, T scale,
                    int n_threads) {
    if (n * m < 20000) n_threads = 1;
    constexpr std::size_t block = 16;
    parallel_for((n + block - 1) / block, n_threads, [&](std::size_t b, int) {
        for (std::size_t i = b * block; i < std::min((b + 1) * block, n); ++i)
            cosine_loops<T>().row(values + i * m, phases, m, scale, values + i * m);
    });
}

// out (n, 2 m): scale * cosine and sine of arguments (n, m), side by side
template <class T>
void cosine_pairs_from(const T* arguments, std::size_t n, std::size_t m, T scale, T* out,
                       int n_threads) {
    if (n * m < 20000) n_threads = 1;
    constexpr std::size_t block = 16;
    parallel_for((n + block - 1) / block, n_threads, [&](std::size_t b, int) {
        for (std::size_t i = b * block; i < std::min((b + 1) * block, n); ++i)
            cosine_loops<T>().pairs_row(arguments + i * m, m, scale, out + 2 * i * m);
    });
}

}  // namespace mercer
