// Products of a matrix that comes tile by tile with weights of its rows and of its columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel_loops.hpp"
#include "parallel.hpp"

namespace mercer {

// Sums over tiles of kKernelRows rows and a panel of columns. Weights of rows are ordered once for
// all threads; each thread has a Room for the columns of an item, some panels that belong together.
template <class In, class S>
class TileSums {
  public:
    // `item` is the most columns of an item, a multiple of the panel; `at_once` says how many
    // weights of a row are taken together where so many are left.
    TileSums(const ProductLoops<In, S>& loops, std::size_t k, std::size_t item,
             std::size_t (*at_once)(std::size_t left))
        : loops_(loops), k_(k), item_(item) {
        for (std::size_t first = 0; first < k_;) {
            const std::size_t count = at_once(k_ - first);
            groups_.push_back({first, count, std::min(count, k_ - first)});
            padded_ += count;
            first += count;
        }
    }

    class Room {
      public:
        // `both` says whether there are weights of columns.
        Room(const TileSums& sums, bool both)
            : tile(kKernelRows * sums.loops_.panel), columns_(sums.item_ * sums.padded_),
              weights_(both ? sums.item_ * sums.k_ : 0),
              lanes_(both ? kKernelRows * sums.k_ * sums.loops_.lanes : 0) {}
        std::vector<In> tile;

      private:
        friend TileSums;
        std::vector<double> columns_;  // (panels, padded, panel)
        std::vector<S> weights_;       // (panels, k, panel)
        std::vector<S> lanes_;         // (kKernelRows, k, lanes)
    };

    // The weights (m, k) of all rows.
    void set_row_weights(const S* weights, std::size_t m, int n_threads) {
        weights_.resize(m * padded_);
        parallel_for((m + kKernelRows - 1) / kKernelRows, n_threads, [&](std::size_t b, int) {
            const std::size_t first = b * kKernelRows, last = std::min(first + kKernelRows, m);
            S* to = weights_.data() + first * padded_;
            for (const Group& group : groups_)
                for (std::size_t i = first; i < last; ++i, to += group.count)
                    std::copy_n(weights + i * k_ + group.first, group.taken, to);
        });
    }

    // Begins an item of the columns first .. last - 1, with weights (., k) of all columns or null.
    void begin(std::size_t first, std::size_t last, const S* weights, Room& room) const {
        std::fill(room.columns_.begin(), room.columns_.end(), 0.0);
        if (!weights) return;
        const std::size_t panel = loops_.panel;
        S* to = room.weights_.data();
        for (std::size_t j = first; j < last; j += panel)
            for (std::size_t c = 0; c < k_; ++c)
                for (std::size_t q = 0; q < panel; ++q)
                    *to++ = j + q < last ? weights[(j + q) * k_ + c] : S(0);
    }
    // Adds the room's tile, of row i on and of panel p of the item, to the sums of its columns ...
    void add_to_columns(std::size_t i, std::size_t rows, std::size_t p, Room& room) const {
        const S* weights = weights_.data() + i * padded_;
        double* sums = room.columns_.data() + p * padded_ * loops_.panel;
        for (const Group& group : groups_) {
            loops_.sum_columns(group.count, room.tile.data(), rows, weights, sums);
            weights += rows * group.count;
            sums += group.count * loops_.panel;
        }
    }
    // ... and of its rows, which `join_rows` moves to totals (m, k) after the last panel.
    void add_to_rows(std::size_t rows, std::size_t p, Room& room) const {
        loops_.sum_rows(room.tile.data(), rows, room.weights_.data() + p * k_ * loops_.panel, k_,
                        room.lanes_.data());
    }
    void join_rows(std::size_t i, std::size_t rows, Room& room, double* totals) const {
        loops_.join_lanes(room.lanes_.data(), rows * k_, totals + i * k_);
    }
    // Both at once for a tile of fixed-point numbers, which the room does not hold, and for one
    // group of weights: the sums of its rows stay in a near cache, and `join_group` moves them. No
    // group may be padded.
    void add_fixed(const FixedLoops<S>& loops, const Fixed<S>* fixed, std::size_t i,
                   std::size_t rows, std::size_t p, std::size_t g, bool to_rows, Room& room) const {
        const Group& group = groups_[g];
        const std::size_t place = (p * k_ + group.first) * loops_.panel;
        loops.multiply[group.count - 1]({fixed, rows,
                                         weights_.data() + i * padded_ + group.first * rows,
                                         to_rows ? room.weights_.data() + place : nullptr,
                                         room.columns_.data() + place, room.lanes_.data()});
    }
    void join_group(std::size_t i, std::size_t rows, std::size_t g, Room& room,
                    double* totals) const {
        const Group& group = groups_[g];
        for (std::size_t row = 0; row < rows; ++row)
            loops_.join_lanes(room.lanes_.data() + row * group.count * loops_.lanes, group.count,
                              totals + (i + row) * k_ + group.first);
    }
    std::size_t n_groups() const { return groups_.size(); }

    // totals (., k) of all columns += the item's times `unit`
    void end(std::size_t first, std::size_t last, const Room& room, double unit,
             double* totals) const {
        const std::size_t panel = loops_.panel;
        for (std::size_t j = first; j < last; ++j) {
            const std::size_t p = (j - first) / panel;
            const double* const sums =
                room.columns_.data() + p * padded_ * panel + (j - first) % panel;
            for (std::size_t c = 0; c < k_; ++c) totals[j * k_ + c] += unit * sums[c * panel];
        }
    }

  private:
    // Weights of a row that sum_columns takes together; those beyond `taken` are zeros.
    struct Group {
        std::size_t first, count, taken;
    };
    const ProductLoops<In, S>& loops_;
    const std::size_t k_, item_;
    std::size_t padded_ = 0;
    std::vector<Group> groups_;
    std::vector<S> weights_;  // for every kKernelRows rows, group after group
};

// Items in the order in which they are handed to threads: beforehand, so that the result depends on
// no race, and to and fro, as items of a symmetric matrix grow.
inline bool is_item_of(std::size_t item, int thread, int n_threads) {
    const auto step = static_cast<std::size_t>(n_threads), t = static_cast<std::size_t>(thread);
    const std::size_t turn = item % (2 * step);
    return turn == t || turn == 2 * step - 1 - t;
}

}  // namespace mercer
