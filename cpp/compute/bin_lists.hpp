// Columns of a binned matrix as lists of rows, the form that sweeps and conjugate gradients take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "bits.hpp"
#include "parallel.hpp"

namespace mercer {

// Some columns of codes (R, n), which ascend, over the rows `order` (n_rows), or over all where it
// is null: column k lists positions in `order`, ascending.
template <class Code>
class BinLists {
  public:
    BinLists(const Code* codes, std::size_t n, const std::vector<BinColumn>& columns,
             const std::uint32_t* order, std::size_t n_rows)
        : codes_(codes), n_(n), columns_(columns), order_(order), n_rows_(n_rows) {
        for (std::size_t k = 0; k < columns.size(); ++k)
            if (k == 0 || columns[k].grid != columns[k - 1].grid) runs_.push_back(k);
        runs_.push_back(columns.size());
    }

    // starts[k + 1] = number of entries of the columns up to k; starts[0] = 0.
    void count(std::int64_t* starts, int n_threads) const {
        std::fill(starts, starts + columns_.size() + 1, std::int64_t{0});
        each_run(n_threads, [&](std::size_t k, std::size_t) { ++starts[k + 1]; });
        for (std::size_t k = 0; k < columns_.size(); ++k) starts[k + 1] += starts[k];
    }
    // The entries, column k's from starts[k] on, which `count` has written.
    void fill(const std::int64_t* starts, std::uint32_t* rows, int n_threads) const {
        std::vector<std::int64_t> ends(starts, starts + columns_.size());
        each_run(n_threads, [&](std::size_t k, std::size_t i) {
            rows[ends[k]++] = static_cast<std::uint32_t>(i);
        });
    }

  private:
    // Calls entry(column, row) for the entries of a grid's columns in the order of the rows; grids
    // go to different threads.
    template <class Entry>
    void each_run(int n_threads, Entry entry) const {
        parallel_for(runs_.size() - 1, n_threads, [&](std::size_t run, int) {
            const std::size_t first = runs_[run], last = runs_[run + 1];
            const Code* grid = codes_ + columns_[first].grid * n_;
            // Columns ascend, so that the last code is the largest; 0 stands for no column.
            constexpr std::uint32_t most = std::numeric_limits<Code>::max();
            std::vector<std::uint32_t> place(std::size_t{std::min(columns_[last - 1].code, most)} +
                                             1);
            for (std::size_t k = first; k < last && columns_[k].code <= most; ++k)
                place[columns_[k].code] = static_cast<std::uint32_t>(k - first + 1);
            for (std::size_t i = 0; i < n_rows_; ++i) {
                const Code code = grid[order_ ? order_[i] : i];
                const std::uint32_t k = code < place.size() ? place[code] : 0;
                if (k) entry(first + k - 1, i);
            }
        });
    }

    const Code* codes_;
    std::size_t n_;
    const std::vector<BinColumn>& columns_;
    const std::uint32_t* order_;
    std::size_t n_rows_;
    std::vector<std::size_t> runs_;  // first column of each grid that has any, and the end
};

}  // namespace mercer
