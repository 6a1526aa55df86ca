// A chunk of dense rows turned input-major, in tiles small enough for the nearest caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "isa.hpp"
#include "points.hpp"

namespace mercer {

template <class T>
class Tiles {
  public:
    explicit Tiles(std::size_t d, std::size_t max_rows) : d_(d) {
        const std::size_t count = (max_rows + kTileRows - 1) / kTileRows;
        numbers_.resize(count * d * kTileRows + kAlignment);
        low_.resize(count * d);
        high_.resize(count * d);
    }

    const T* tile(std::size_t t) const { return aligned() + t * d_ * kTileRows; }
    const T* low(std::size_t t) const { return low_.data() + t * d_; }
    const T* high(std::size_t t) const { return high_.data() + t * d_; }

    void fill(std::size_t t, const DensePoints<T>& points, std::size_t first, std::size_t rows) {
        binning_loops<T>().fill_tile(points.numbers + first * d_, rows, d_,
                                     aligned() + t * d_ * kTileRows, low_.data() + t * d_,
                                     high_.data() + t * d_);
    }

    // The range of each input over the first `count` tiles.
    void range(std::size_t count, double* low, double* high) const {
        for (std::size_t j = 0; j < d_; ++j) {
            low[j] = static_cast<double>(low_[j]);
            high[j] = static_cast<double>(high_[j]);
        }
        for (std::size_t t = 1; t < count; ++t)
            for (std::size_t j = 0; j < d_; ++j) {
                low[j] = std::min(low[j], static_cast<double>(low_[t * d_ + j]));
                high[j] = std::max(high[j], static_cast<double>(high_[t * d_ + j]));
            }
    }

  private:
    static constexpr std::size_t kAlignment = 64 / sizeof(T);
    T* aligned() const {
        const auto address = reinterpret_cast<std::uintptr_t>(numbers_.data());
        return reinterpret_cast<T*>((address + 63) / 64 * 64);
    }

    std::size_t d_;
    std::vector<T> numbers_, low_, high_;
};

}  // namespace mercer
