// A chunk of dense rows turned input-major, in tiles small enough for the nearest caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "isa.hpp"
#include "parallel.hpp"
#include "points.hpp"
#include "rounded.hpp"

namespace mercer {

template <class T>
class Tiles {
  public:
    Tiles(std::size_t d, std::size_t max_rows) : d_(d), low_(d), high_(d) {
        const std::size_t count = (max_rows + kTileRows - 1) / kTileRows;
        numbers_.resize(count * d * kTileRows + kAlignment);
        if (sizeof(T) == 8) floats_.resize(count * d * kTileRows);
        tile_low_.resize(count * d);
        tile_high_.resize(count * d);
    }

    std::size_t first_row() const { return first_row_; }
    std::size_t rows() const { return rows_; }
    const T* tile(std::size_t t) const { return aligned() + t * d_ * kTileRows; }
    const float* rounded(std::size_t t) const {
        if constexpr (sizeof(T) == 4)
            return tile(t);
        else
            return floats_.data() + t * d_ * kTileRows;
    }
    const RoundedNumbers<T>& held() const { return held_; }
    // The least and the largest number of each input, in one tile and in all.
    const T* low(std::size_t t) const { return tile_low_.data() + t * d_; }
    const T* high(std::size_t t) const { return tile_high_.data() + t * d_; }
    const double* low() const { return low_.data(); }
    const double* high() const { return high_.data(); }

    // `n_grids` are those that will pass over the rows.
    void load(const DensePoints<T>& points, std::size_t first_row, std::size_t rows,
              std::size_t n_grids, int n_threads) {
        first_row_ = first_row;
        rows_ = rows;
        const std::size_t count = (rows + kTileRows - 1) / kTileRows;
        parallel_for(count, n_threads, [&](std::size_t t, int) {
            const std::size_t row = t * kTileRows;
            binning_loops<T>().fill_tile(points.numbers + (first_row + row) * d_,
                                         std::min(kTileRows, rows - row), d_, aligned() + row * d_,
                                         floats_.data() + std::min(row * d_, floats_.size()),
                                         tile_low_.data() + t * d_, tile_high_.data() + t * d_);
        });
        held_.start(d_, rows, n_grids);
        parallel_for(held_.n_inputs(), n_threads, [&](std::size_t j, int) {
            for (std::size_t t = 0; t < count; ++t)
                held_.add(j, rounded(t) + j * kTileRows, std::min(kTileRows, rows - t * kTileRows));
        });
        std::copy_n(low(0), d_, low_.begin());
        std::copy_n(high(0), d_, high_.begin());
        for (std::size_t t = 1; t < count; ++t)
            for (std::size_t j = 0; j < d_; ++j) {
                low_[j] = std::min(low_[j], static_cast<double>(low(t)[j]));
                high_[j] = std::max(high_[j], static_cast<double>(high(t)[j]));
            }
    }

  private:
    static constexpr std::size_t kAlignment = 64 / sizeof(T);
    const T* aligned() const {
        const auto address = reinterpret_cast<std::uintptr_t>(numbers_.data());
        return numbers_.data() + (64 - address % 64) % 64 / sizeof(T);
    }
    T* aligned() { return const_cast<T*>(static_cast<const Tiles*>(this)->aligned()); }

    std::size_t d_, first_row_ = 0, rows_ = 0;
    std::vector<T> numbers_, tile_low_, tile_high_;
    std::vector<float> floats_;  // the tiles rounded, of float64 alone
    RoundedNumbers<T> held_;
    std::vector<double> low_, high_;
};

}  // namespace mercer
