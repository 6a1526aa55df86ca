// Products with a weighted binned matrix Z, and the sizes of bins: row i has values[g * n + i] in
// the column offsets[g] + codes[g * n + i] for every grid g, and nothing where the code is beyond
// the grid's columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "weighing.hpp"

namespace mercer {

struct WeightedMatrix {
    const void* codes;            // (n_grids, n), unsigned integers
    std::size_t code_bytes;       // 1, 2 or 4
    const float* values;          // (n_grids, n)
    const std::int64_t* offsets;  // (n_grids + 1), the first column of each grid
    std::size_t n_grids, n;

    std::size_t first_column(std::size_t g) const { return static_cast<std::size_t>(offsets[g]); }
    std::size_t n_bins(std::size_t g) const { return first_column(g + 1) - first_column(g); }
    std::size_t most_bins() const {
        std::size_t most = 0;
        for (std::size_t g = 0; g < n_grids; ++g) most = std::max(most, n_bins(g));
        return most;
    }
};

inline const WeightedSumLoops& weighted_sum_loops(const WeightedMatrix& Z) {
    switch (Z.code_bytes) {
    case 1: return weighted_loops().u8;
    case 2: return weighted_loops().u16;
    default: return weighted_loops().u32;
    }
}

// Calls f(pass, g) for passes over the grids from start to stop, those without columns left out.
template <class F>
void for_each_weighted_pass(const WeightedMatrix& Z, std::size_t start, std::size_t stop,
                            std::size_t first_row, std::size_t width, F f) {
    for (std::size_t g = start; g < stop;) {
        std::size_t count = stop - g < kWeightedGrids ? 1 : kWeightedGrids;
        for (std::size_t place = 0; place < count; ++place)
            if (Z.n_bins(g + place) == 0) count = 1;
        WeightedPass pass{};
        pass.n_grids = count;
        pass.width = width;
        for (std::size_t place = 0; place < count; ++place) {
            const std::size_t at = (g + place) * Z.n + first_row;
            pass.codes[place] = static_cast<const unsigned char*>(Z.codes) + at * Z.code_bytes;
            pass.values[place] = Z.values + at;
            pass.n_bins[place] = Z.n_bins(g + place);
        }
        if (pass.n_bins[0] > 0) f(pass, g);
        g += count;
    }
}

// Splits k columns into panels, so that the table of a grid stays in a near cache.
template <class F>
void for_each_weighted_panel(std::size_t k, std::size_t most_bins, F f) {
    const std::size_t fitting = kNearBytes / sizeof(double) / (most_bins + 1);
    const std::size_t width = std::max<std::size_t>(fitting, 16);
    for (std::size_t q = 0; q < k; q += width) f(q, std::min(width, k - q));
}

template <class T>
void weighted_gather(const WeightedMatrix& Z, const WeightedPass& pass, const T* const* tables,
                     std::size_t table_step, std::size_t rows, T* sums, std::size_t step) {
    if constexpr (sizeof(T) == 4)
        weighted_sum_loops(Z).gather_f32(pass, tables, table_step, rows, sums, step);
    else
        weighted_sum_loops(Z).gather_f64(pass, tables, table_step, rows, sums, step);
}

// out (n, k) = Z w, w (D, k)
template <class T>
void weighted_matvec(const WeightedMatrix& Z, const T* w, std::size_t k, T* out, int n_threads) {
    if (Z.n == 0 || k == 0) return;
    if (Z.n * Z.n_grids * k < 100000) n_threads = 1;
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    const std::size_t tile = std::min(std::clamp<std::size_t>(4 * Z.most_bins(), 4096, 32768),
                                      (Z.n + threads - 1) / threads);
    parallel_for((Z.n + tile - 1) / tile, n_threads, [&](std::size_t t, int) {
        const std::size_t first = t * tile, rows = std::min(tile, Z.n - first);
        T* sums = out + first * k;
        std::fill(sums, sums + rows * k, T(0));
        for_each_weighted_panel(k, Z.most_bins(), [&](std::size_t q, std::size_t width) {
            for_each_weighted_pass(Z, 0, Z.n_grids, first, width, [&](auto& pass, std::size_t g) {
                const T* tables[kWeightedGrids];
                for (std::size_t place = 0; place < pass.n_grids; ++place)
                    tables[place] = w + Z.first_column(g + place) * k + q;
                weighted_gather(Z, pass, tables, k, rows, sums + q, k);
            });
        });
    });
}

// The sums over rows that fall into the bins of a few grids, in float64.
class WeightedSums {
  public:
    WeightedSums(const WeightedMatrix& Z, std::size_t k) {
        for_each_weighted_panel(k, Z.most_bins(), [&](std::size_t, std::size_t width) {
            room_ = std::max(room_, Z.most_bins() * width);
        });
        sums_.resize(kWeightedGrids * room_);
    }
    std::size_t room() const { return room_; }
    double* table(std::size_t place) { return sums_.data() + place * room_; }

    template <class T>
    void fill(const WeightedMatrix& Z, const WeightedPass& pass, std::size_t rows, const T* v,
              std::size_t k, int power) {
        double* tables[kWeightedGrids];
        for (std::size_t place = 0; place < pass.n_grids; ++place) {
            tables[place] = table(place);
            std::fill_n(tables[place], pass.n_bins[place] * pass.width, 0.0);
        }
        if constexpr (sizeof(T) == 4)
            weighted_sum_loops(Z).scatter_f32(pass, tables, rows, v, k, power);
        else
            weighted_sum_loops(Z).scatter_f64(pass, tables, rows, v, k, power);
    }

  private:
    std::size_t room_ = 0;
    std::vector<double> sums_;
};

// out (D, k) = P' v, v (n, k), P being Z with every entry raised to `power`: 0, 1 or 2.
template <class T>
void weighted_rmatvec(const WeightedMatrix& Z, const T* v, std::size_t k, T* out, int power,
                      int n_threads) {
    if (k == 0) return;
    if (Z.n * Z.n_grids * k < 100000) n_threads = 1;
    const std::size_t n_groups = (Z.n_grids + kWeightedGrids - 1) / kWeightedGrids;
    std::vector<WeightedSums> sums(static_cast<std::size_t>(std::max(n_threads, 1)),
                                   WeightedSums(Z, k));
    parallel_for(n_groups, n_threads, [&](std::size_t group, int thread) {
        WeightedSums& mine = sums[static_cast<std::size_t>(thread)];
        const std::size_t start = group * kWeightedGrids;
        const std::size_t stop = std::min(start + kWeightedGrids, Z.n_grids);
        for_each_weighted_panel(k, Z.most_bins(), [&](std::size_t q, std::size_t width) {
            for_each_weighted_pass(Z, start, stop, 0, width, [&](auto& pass, std::size_t g) {
                mine.fill(Z, pass, Z.n, v + q, k, power);
                for (std::size_t place = 0; place < pass.n_grids; ++place) {
                    const double* table = mine.table(place);
                    T* bin = out + Z.first_column(g + place) * k + q;
                    for (std::size_t b = 0; b < pass.n_bins[place]; ++b, bin += k)
                        for (std::size_t c = 0; c < width; ++c) bin[c] = static_cast<T>(*table++);
                }
            });
        });
    });
}

// out (n, k) = Z Z' v, each pass scattered and gathered while its entries are near. The
// grids of a thread depend on n_threads alone, so that the result does too.
template <class T>
void weighted_gram_matvec(const WeightedMatrix& Z, const T* v, std::size_t k, T* out,
                          int n_threads) {
    if (Z.n == 0 || k == 0) return;
    if (Z.n * Z.n_grids * k < 100000) n_threads = 1;
    const std::size_t n_groups = (Z.n_grids + kWeightedGrids - 1) / kWeightedGrids;
    const std::size_t size = Z.n * k, threads = static_cast<std::size_t>(std::max(n_threads, 1));
    if (threads > 1 && n_groups < 2 * threads) {  // n-long sums per thread would not pay
        std::vector<T> sums(Z.first_column(Z.n_grids) * k);
        weighted_rmatvec(Z, v, k, sums.data(), 1, n_threads);
        return weighted_matvec(Z, sums.data(), k, out, n_threads);
    }
    std::vector<std::vector<T>> parts(threads);
    on_threads(n_threads, [&](int thread) {
        const auto me = static_cast<std::size_t>(thread);
        const std::size_t start = n_groups * me / threads * kWeightedGrids;
        const std::size_t stop =
            std::min(n_groups * (me + 1) / threads * kWeightedGrids, Z.n_grids);
        parts[me].assign(size, T(0));
        WeightedSums sums(Z, k);
        std::vector<T> rounded(kWeightedGrids * sums.room());
        for_each_weighted_panel(k, Z.most_bins(), [&](std::size_t q, std::size_t width) {
            for_each_weighted_pass(Z, start, stop, 0, width, [&](auto& pass, std::size_t) {
                sums.fill(Z, pass, Z.n, v + q, k, 1);
                const T* tables[kWeightedGrids];
                for (std::size_t place = 0; place < pass.n_grids; ++place) {
                    T* table = rounded.data() + place * sums.room();
                    std::transform(sums.table(place),
                                   sums.table(place) + pass.n_bins[place] * width, table,
                                   [](double sum) { return static_cast<T>(sum); });
                    tables[place] = table;
                }
                weighted_gather(Z, pass, tables, width, Z.n, parts[me].data() + q, k);
            });
        });
    });
    constexpr std::size_t tile = 16384;
    parallel_for((size + tile - 1) / tile, n_threads, [&](std::size_t t, int) {
        for (std::size_t i = t * tile; i < std::min((t + 1) * tile, size); ++i) {
            T sum = 0;
            for (const auto& part : parts) sum += part[i];
            out[i] = sum;
        }
    });
}

}  // namespace mercer
