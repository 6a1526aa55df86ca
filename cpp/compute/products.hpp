// Products with the binned matrix Z: one number `scale` in the column offsets[g] + code for every
// row and grid, nothing elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

struct BinnedMatrix {
    const void* codes;            // (n_grids, n), unsigned integers
    std::size_t code_bytes;       // 1, 2 or 4
    const std::int64_t* offsets;  // (n_grids + 1), the first column of each grid
    std::size_t n_grids, n;
    bool missing;  // whether codes beyond a grid's columns occur: they stand for no entry
    std::size_t first_grid = 0;  // that `codes` begin with

    std::size_t n_columns() const { return first_column(n_grids); }
    std::size_t first_column(std::size_t g) const { return static_cast<std::size_t>(offsets[g]); }
    std::size_t n_bins(std::size_t g) const { return first_column(g + 1) - first_column(g); }
    std::size_t mean_bins() const { return n_columns() / std::max<std::size_t>(n_grids, 1); }
    std::size_t most_bins() const {
        std::size_t most = 0;
        for (std::size_t g = 0; g < n_grids; ++g) most = std::max(most, n_bins(g));
        return most;
    }
};

template <class T>
void gather(const BinnedMatrix& Z, const Pass<const T>& pass, std::size_t rows, T* sums,
            std::size_t step) {
    if constexpr (sizeof(T) == 4)
        sum_loops(Z.code_bytes).gather_f32(pass, rows, sums, step);
    else
        sum_loops(Z.code_bytes).gather_f64(pass, rows, sums, step);
}
template <class T>
void scatter(const BinnedMatrix& Z, const Pass<double>& pass, std::size_t rows, const T* numbers,
             std::size_t step) {
    if constexpr (sizeof(T) == 4)
        sum_loops(Z.code_bytes).scatter_f32(pass, rows, numbers, step);
    else
        sum_loops(Z.code_bytes).scatter_f64(pass, rows, numbers, step);
}

// Splits k columns into panels: all at once if a table of so many rows stays in a near cache, which
// it should, being read or written at random; else some cache lines.
template <class F>
void for_each_panel(std::size_t k, std::size_t table_rows, F f) {
    const std::size_t fitting = kNearBytes / sizeof(double) / (table_rows + 1) / 16 * 16;
    const std::size_t width = std::max<std::size_t>(fitting, 16);
    for (std::size_t q = 0; q < k; q += width) f(q, std::min(width, k - q));
}

// Grids of a pass: as many as have tables in a near cache, 4, 2 or 1.
inline std::size_t grids_of_pass(std::size_t table_bytes) {
    std::size_t count = kPassGrids;
    while (count > 1 && count * table_bytes > kNearBytes) count /= 2;
    return count;
}

// Splits grids into passes of 4, 2 and 1.
template <class F>
void for_each_pass(std::size_t first_grid, std::size_t last_grid, std::size_t table_bytes, F f) {
    std::size_t count = grids_of_pass(table_bytes);
    for (std::size_t g = first_grid; g < last_grid; g += count) {
        while (count > last_grid - g) count /= 2;
        f(g, count);
    }
}

// A pass over the grids from g on; `table(grid, place)` is where the bins of a grid lie.
template <class Number, class Table>
Pass<Number> make_pass(const BinnedMatrix& Z, std::size_t g, std::size_t n_grids,
                       std::size_t first_row, std::size_t width, std::size_t table_step,
                       Table table) {
    Pass<Number> pass{};
    const auto* codes = static_cast<const unsigned char*>(Z.codes);
    pass.n_grids = n_grids;
    pass.width = width;
    pass.table_step = table_step;
    pass.missing = Z.missing;
    pass.far = Z.mean_bins() * table_step * sizeof(Number) * n_grids > kNearBytes;
    for (std::size_t place = 0; place < n_grids; ++place) {
        pass.codes[place] = codes + ((g + place - Z.first_grid) * Z.n + first_row) * Z.code_bytes;
        pass.tables[place] = table(g + place, place);
        pass.n_bins[place] = Z.n_bins(g + place);
    }
    return pass;
}

// sums (rows, k) += Z w over the grids from start to stop and rows from `first` on, w (D, k);
// `zeros` are k
template <class T>
void add_matvec(const BinnedMatrix& Z, std::size_t start, std::size_t stop, std::size_t first,
                std::size_t rows, const T* w, std::size_t k, const T* zeros, T* sums) {
    for_each_panel(k, Z.mean_bins(), [&](std::size_t q, std::size_t width) {
        const std::size_t table_bytes = Z.mean_bins() * width * sizeof(T);
        for_each_pass(start, stop, table_bytes, [&](std::size_t g, std::size_t count) {
            auto pass = make_pass<const T>(
                Z, g, count, first, width, k, [&](std::size_t grid, std::size_t) {
                    return Z.n_bins(grid) == 0 ? zeros : w + Z.first_column(grid) * k + q;
                });
            pass.zeros = zeros;
            gather(Z, pass, rows, sums + q, k);
        });
    });
}

// out (n, k) = scale * Z w, w (D, k)
template <class T>
void matvec(const BinnedMatrix& Z, const T* w, std::size_t k, T* out, double scale, int n_threads) {
    if (Z.n == 0 || k == 0) return;
    if (Z.n * Z.n_grids * k < 100000) n_threads = 1;
    // Tiles so long that the weights, which every tile reads, cost little beside the codes.
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    const std::size_t tile = std::min(std::clamp<std::size_t>(4 * Z.mean_bins(), 4096, 32768),
                                      (Z.n + threads - 1) / threads);
    const std::vector<T> zeros(k);
    parallel_for((Z.n + tile - 1) / tile, n_threads, [&](std::size_t t, int) {
        const std::size_t first = t * tile, rows = std::min(tile, Z.n - first);
        T* sums = out + first * k;
        std::fill(sums, sums + rows * k, T(0));
        add_matvec(Z, 0, Z.n_grids, first, rows, w, k, zeros.data(), sums);
        for (std::size_t i = 0; i < rows * k; ++i) sums[i] *= static_cast<T>(scale);
    });
}

// Numbers from one bin to the next in a table of our own: whole cache lines, so that no vector lies
// across two of them.
template <class T>
constexpr std::size_t padded(std::size_t width) {
    constexpr std::size_t line = 64 / sizeof(T);
    return width == 1 ? 1 : (width + line - 1) / line * line;
}

// Room for the tables of a pass, each at the start of a cache line, and for no more: memory of
// large tables costs as much time to come by as the sums.
template <class T>
class BinTables {
  public:
    BinTables(const BinnedMatrix& Z, std::size_t k) {
        std::size_t tables = 1;
        for_each_panel(k, Z.mean_bins(), [&](std::size_t, std::size_t width) {
            room_ =
                std::max(room_, (Z.most_bins() + 1) * std::max<std::size_t>(padded<T>(width), 2));
            tables = std::max(tables, grids_of_pass(Z.mean_bins() * width * sizeof(double)));
        });
        room_ = padded<T>(room_ + 1);
        numbers_.resize(tables * room_ + 64 / sizeof(T));
    }

    T* table(std::size_t place) {
        const auto address = reinterpret_cast<std::uintptr_t>(numbers_.data());
        return numbers_.data() + (64 - address % 64) % 64 / sizeof(T) + place * room_;
    }

  private:
    std::size_t room_ = 0;
    std::vector<T> numbers_;
};

constexpr std::size_t kTwofoldBins = 512;  // as many sums, twice, stay in the nearest cache

// The sums over rows that fall into the bins of a few grids, in float64 whatever T.
class BinSums {
  public:
    BinSums(const BinnedMatrix& Z, std::size_t k) : sums_(Z, k) {}

    double* table(std::size_t place) { return sums_.table(place); }

    template <class T>
    void fill(const BinnedMatrix& Z, std::size_t g, std::size_t n_grids, const T* v, std::size_t k,
              std::size_t width) {
        const std::size_t step = padded<double>(width);
        const bool twofold = width == 1 && Z.mean_bins() < kTwofoldBins;
        auto pass = make_pass<double>(
            Z, g, n_grids, 0, width, step, [&](std::size_t grid, std::size_t place) {
                std::fill_n(table(place), (Z.n_bins(grid) + 1) * (twofold ? 2 : step), 0.0);
                return table(place);
            });
        pass.twofold = twofold;
        scatter(Z, pass, Z.n, v, k);
        for (std::size_t place = 0; twofold && place < n_grids; ++place)
            for (std::size_t b = 0; b < Z.n_bins(g + place); ++b)
                table(place)[b] = table(place)[2 * b] + table(place)[2 * b + 1];
    }

  private:
    BinTables<double> sums_;
};

// out (D, k) = scale * Z' v, v (n, k)
template <class T>
void rmatvec(const BinnedMatrix& Z, const T* v, std::size_t k, T* out, double scale,
             int n_threads) {
    if (k == 0 || Z.n_grids == 0) return;
    if (Z.n * Z.n_grids * k < 100000) n_threads = 1;
    const std::size_t n_groups = (Z.n_grids + kPassGrids - 1) / kPassGrids;
    std::vector<BinSums> sums(static_cast<std::size_t>(std::max(n_threads, 1)), BinSums(Z, k));
    parallel_for(n_groups, n_threads, [&](std::size_t group, int thread) {
        BinSums& mine = sums[static_cast<std::size_t>(thread)];
        const std::size_t start = group * kPassGrids;
        const std::size_t stop = std::min(start + kPassGrids, Z.n_grids);
        for_each_panel(k, Z.mean_bins(), [&](std::size_t q, std::size_t width) {
            const std::size_t table_bytes = Z.mean_bins() * width * sizeof(double);
            for_each_pass(start, stop, table_bytes, [&](std::size_t g, std::size_t count) {
                mine.fill(Z, g, count, v + q, k, width);
                for (std::size_t place = 0; place < count; ++place) {
                    const double* table = mine.table(place);
                    T* bin = out + Z.first_column(g + place) * k + q;
                    for (std::size_t b = 0; b < Z.n_bins(g + place);
                         ++b, bin += k, table += padded<double>(width))
                        for (std::size_t c = 0; c < width; ++c)
                            bin[c] = static_cast<T>(scale * table[c]);
                }
            });
        });
    });
}

// part (n, k) = Z Z' v over the grids from start to stop, each pass scattered and gathered while
// its codes are near.
template <class T>
void add_gram_product(const BinnedMatrix& Z, std::size_t start, std::size_t stop, const T* v,
                      std::size_t k, T* part) {
    BinSums sums(Z, k);
    BinTables<T> rounded(Z, k);
    const std::vector<T> zeros(k);
    for_each_panel(k, Z.mean_bins(), [&](std::size_t q, std::size_t width) {
        const std::size_t table_bytes = Z.mean_bins() * width * sizeof(double);
        for_each_pass(start, stop, table_bytes, [&](std::size_t g, std::size_t count) {
            sums.fill(Z, g, count, v + q, k, width);
            const std::size_t step = padded<T>(width);
            auto pass = make_pass<const T>(
                Z, g, count, 0, width, step, [&](std::size_t grid, std::size_t place) {
                    T* target = rounded.table(place);
                    const double* table = sums.table(place);
                    for (std::size_t b = 0; b < Z.n_bins(grid); ++b)
                        for (std::size_t c = 0; c < width; ++c)
                            target[b * step + c] =
                                static_cast<T>(table[b * padded<double>(width) + c]);
                    return target;
                });
            pass.zeros = zeros.data();
            gather(Z, pass, Z.n, part + q, k);
        });
    });
}

// out (n, k) = scale * Z Z' v. The grids of a thread depend on n_threads alone, so that the result
// does too.
template <class T>
void gram_matvec(const BinnedMatrix& Z, const T* v, std::size_t k, T* out, double scale,
                 int n_threads) {
    if (Z.n == 0 || k == 0) return;
    if (Z.n * Z.n_grids * k < 100000) n_threads = 1;
    const std::size_t n_groups = (Z.n_grids + kPassGrids - 1) / kPassGrids;
    const std::size_t size = Z.n * k, threads = static_cast<std::size_t>(std::max(n_threads, 1));
    if (threads > 1 && n_groups < 2 * threads) {  // n-long sums per thread would not pay
        std::vector<T> sums(Z.n_columns() * k);
        rmatvec(Z, v, k, sums.data(), 1.0, n_threads);
        return matvec(Z, sums.data(), k, out, scale, n_threads);
    }
    std::vector<std::vector<T>> parts(threads);
    on_threads(n_threads, [&](int thread) {
        const auto me = static_cast<std::size_t>(thread);
        const std::size_t start = n_groups * me / threads * kPassGrids;
        const std::size_t stop = std::min(n_groups * (me + 1) / threads * kPassGrids, Z.n_grids);
        parts[me].assign(size, T(0));
        add_gram_product(Z, start, stop, v, k, parts[me].data());
    });
    constexpr std::size_t tile = 16384;
    parallel_for((size + tile - 1) / tile, n_threads, [&](std::size_t t, int) {
        for (std::size_t i = t * tile; i < std::min((t + 1) * tile, size); ++i) {
            T sum = 0;
            for (const auto& part : parts) sum += part[i];
            out[i] = static_cast<T>(scale) * sum;
        }
    });
}

}  // namespace mercer
