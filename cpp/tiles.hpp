// A chunk of dense rows turned input-major, in tiles small enough for the nearest caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "loops.hpp"
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

    // Copies `rows` rows starting at `first`; places left over repeat the last row.
    void fill(std::size_t t, const DensePoints<T>& points, std::size_t first, std::size_t rows) {
        const T* source = points.numbers + first * d_;
        T* target = aligned() + t * d_ * kTileRows;
        constexpr std::size_t strip = 64 / sizeof(T);  // inputs on one cache line
        for (std::size_t j0 = 0; j0 < d_; j0 += strip) {
            const std::size_t j1 = std::min(j0 + strip, d_);
            for (std::size_t i = 0; i < rows; ++i)
                for (std::size_t j = j0; j < j1; ++j)
                    target[j * kTileRows + i] = source[i * d_ + j];
        }
        for (std::size_t j = 0; j < d_; ++j) {
            T* column = target + j * kTileRows;
            T low = column[0], high = column[0];
            for (std::size_t i = 0; i < rows; ++i) {
                low = column[i] < low ? column[i] : low;
                high = column[i] > high ? column[i] : high;
            }
            std::fill(column + rows, column + kTileRows, column[rows - 1]);
            low_[t * d_ + j] = low;
            high_[t * d_ + j] = high;
        }
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
