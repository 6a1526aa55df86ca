// Kernel matrices of dense rows, made in blocks that never leave the caches.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "isa.hpp"
#include "kernel_loops.hpp"
#include "nonzeros.hpp"
#include "parallel.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const KernelTables kernels_loops_v2, kernels_loops_v3, kernels_loops_v4;
inline const KernelTables* const kernel_tables[] = {&kernels_loops_v2, &kernels_loops_v3,
                                                    &kernels_loops_v4};
#else
extern const KernelTables kernels_loops_baseline;
inline const KernelTables* const kernel_tables[] = {&kernels_loops_baseline};
#endif

inline const KernelTables& kernel_loops() {
    static const KernelTables& chosen = *kernel_tables[choose_level()];
    return chosen;
}

template <class In>
struct KernelWork {
    KernelKind kind;
    const In* x;  // (n, d)
    const In* y;  // (m, d)
    std::size_t n, m, d;
    const double* centre;  // (d), somewhere among the rows: the accuracy depends on it
    const double* scale;   // (d), positive
    double parameter;
    In* out;  // (n, m)
    // (d), of sums over few inputs: what most numbers of each column are; else null
    const double* usual = nullptr;
    bool differences = false;  // squared distances are summed up from differences
    bool fine = false;         // what is made from inner products has the accuracy `full`
};

// The work with sums over few inputs if that saves time, which have the accuracy `single`; `usual`
// is room for their numbers.
inline KernelWork<float> with_few_inputs(KernelWork<float> work, std::vector<double>& usual) {
    if (work.kind != KernelKind::laplacian) return work;
    usual = usual_numbers(work.y, work.m, work.d, work.scale);
    if (!usual.empty()) work.usual = usual.data();
    return work;
}

// Rows of one operand, packed in panels.
template <class T, class In>
class PackedRows {
  public:
    PackedRows(const KernelLoops<T, In>& loops, const KernelWork<In>& work, std::size_t width,
               std::size_t max_rows)
        : loops_(loops), work_(work), width_(width), d_(work.d),
          numbers((max_rows + width - 1) / width * width * work.d),
          squares((max_rows + width - 1) / width * width) {}

    // Packs `count` rows, at most `width`, as panel p; whether they are small enough for squared
    // distances not to overflow.
    bool pack(std::size_t p, const In* rows, std::size_t count) {
        T* const panel = numbers_of(p);
        if (work_.usual) {
            T* const sums = squares.data() + p * width_;
            loops_.pack_scaled(rows, count, d_, width_, work_.usual, work_.scale, panel, sums);
            sum_magnitudes(panel, d_, width_, sums);
            return true;
        }
        if (is_direct(work_.kind)) {
            loops_.pack_raw(rows, count, d_, width_, panel);
            return true;
        }
        T* const panel_squares = squares.data() + p * width_;
        loops_.pack_scaled(rows, count, d_, width_, work_.centre, work_.scale, panel,
                           panel_squares);
        return std::all_of(panel_squares, panel_squares + width_,
                           [](T square) { return square <= std::numeric_limits<T>::max() / 8; });
    }
    T* numbers_of(std::size_t p) { return numbers.data() + p * width_ * d_; }

  private:
    const KernelLoops<T, In>& loops_;
    const KernelWork<In>& work_;
    std::size_t width_, d_;

  public:
    std::vector<T> numbers, squares;
};

constexpr std::size_t kWorthThreads = 200000;  // numbers read or written, else starting them costs

template <class T, class In>
bool fill_kernel(const KernelLoops<T, In>& loops, const KernelWork<In>& work, int n_threads) {
    const std::size_t n = work.n, m = work.m, d = work.d;
    const std::size_t left = loops.left_width, right = loops.right_width;
    const std::size_t n_panels = (m + right - 1) / right;
    std::atomic<bool> small{true};
    const std::vector<T> weights(work.scale, work.scale + d);
    PackedRows<T, In> columns(loops, work, right, m);
    parallel_for(n_panels, m * d < kWorthThreads ? 1 : n_threads, [&](std::size_t p, int) {
        if (!columns.pack(p, work.y + p * right * d, std::min(right, m - p * right))) small = false;
    });
    // While the columns stay in a near cache, few rows at a time write their results in order.
    const std::size_t strip = columns.numbers.size() * sizeof(T) <= kNearBytes ? left : kKernelRows;
    std::vector<PackedRows<T, In>> rows_of(static_cast<std::size_t>(std::max(n_threads, 1)),
                                           {loops, work, left, kKernelRows});
    std::vector<NonZeros<T>> nonzeros_of(work.usual ? rows_of.size() : 0);
    parallel_for((n + kKernelRows - 1) / kKernelRows, n_threads, [&](std::size_t b, int thread) {
        const std::size_t first = b * kKernelRows, rows = std::min(kKernelRows, n - first);
        PackedRows<T, In>& points = rows_of[static_cast<std::size_t>(thread)];
        for (std::size_t i = 0; i < rows; i += left)
            if (!points.pack(i / left, work.x + (first + i) * d, std::min(left, rows - i)))
                small = false;
        if (!small) return;
        const NonZeros<T>* nonzeros = nullptr;
        if (work.usual) {
            NonZeros<T>& found = nonzeros_of[static_cast<std::size_t>(thread)];
            found.find(points.numbers.data(), rows, d, left);
            nonzeros = &found;
        }
        for (std::size_t start = 0; start < rows; start += strip)
            for (std::size_t q = 0; q < m; q += right)
                loops.tile(
                    work.kind,
                    {points.numbers.data() + start * d, columns.numbers_of(q / right),
                     points.squares.data() + start, columns.squares.data() + q,
                     work.x + (first + start) * d, work.y + q * d, work.scale, weights.data(), d,
                     std::min(strip, rows - start), std::min(right, m - q),
                     static_cast<T>(work.parameter), work.out + (first + start) * m + q, m,
                     nonzeros ? nonzeros->starts.data() + 2 * start : nullptr,
                     nonzeros ? nonzeros->places.data() : nullptr,
                     nonzeros ? nonzeros->values.data() : nullptr, work.differences, work.fine});
    });
    return small;
}

// The longest scaled row, squared, and how many are longer than `length`, squared.
struct Lengths {
    double longest = 0;
    std::size_t n_longer = 0;
};
inline double squared_norm(const float* x, const double* centre, const double* scale,
                           std::size_t d) {
    return kernel_loops().squared_norm_f32(x, centre, scale, d);
}
inline double squared_norm(const double* x, const double* centre, const double* scale,
                           std::size_t d) {
    return kernel_loops().squared_norm_f64(x, centre, scale, d);
}
template <class In>
Lengths lengths_of(const In* rows, std::size_t n, const KernelWork<In>& work, double length,
                   int n_threads) {
    constexpr std::size_t block = 1024;
    std::vector<Lengths> found((n + block - 1) / block);
    if (n * work.d < kWorthThreads) n_threads = 1;
    parallel_for(found.size(), n_threads, [&](std::size_t b, int) {
        for (std::size_t i = b * block; i < std::min((b + 1) * block, n); ++i) {
            const double square = squared_norm(rows + i * work.d, work.centre, work.scale, work.d);
            if (!(square <= found[b].longest)) found[b].longest = square;
            found[b].n_longer += !(square <= length);
        }
    });
    Lengths all;
    for (const Lengths& part : found) {
        if (!(part.longest <= all.longest)) all.longest = part.longest;
        all.n_longer += part.n_longer;
    }
    return all;
}

// The error that kernels of float32 rows may have: 1e-6, or 2e-5 where speed counts for more.
enum class Accuracy { full, single };

// How the kernel of float32 rows is computed: in float64, or in float32 from inner products, or
// from differences where the kernel is a function of the squared distance.
enum class Arithmetic { wide, products, differences };

// The fastest that is accurate enough. What is summed up from differences has a small relative
// error, but for the rounding of centred and scaled rows: the kernel changes by less than their
// length times 1e-7. The expanded square has an error of about the squared lengths times 1e-7. Of
// long rows, the squares that would show it are computed once more, which only a few rows may want.
inline Arithmetic arithmetic_of(const KernelWork<float>& work, Accuracy accuracy, int n_threads) {
    const bool single = accuracy == Accuracy::single;
    const bool ordinary = std::all_of(work.scale, work.scale + work.d,
                                      [](double scale) { return scale > 1e-12 && scale < 1e12; });
    const auto of_squares = [&](double length) {
        Lengths x = lengths_of(work.x, work.n, work, length, n_threads), y;
        if (work.x != work.y) y = lengths_of(work.y, work.m, work, length, n_threads);
        const auto fit = [&](const Lengths& rows, std::size_t n) {
            return rows.n_longer * 16 <= n && rows.longest < (single ? 1e30 : 64.0);
        };
        if (length > 0 && fit(x, work.n) && fit(y, work.m)) return Arithmetic::products;
        const double most = single ? 1e4 : 64.0;  // the squared length
        return x.longest <= most && y.longest <= most ? Arithmetic::differences : Arithmetic::wide;
    };
    switch (work.kind) {
    case KernelKind::laplacian: return ordinary ? Arithmetic::products : Arithmetic::wide;
    case KernelKind::cauchy: return single && ordinary ? Arithmetic::products : Arithmetic::wide;
    case KernelKind::gaussian:
    case KernelKind::rational: return of_squares(single ? 32.0 : 1.5);
    case KernelKind::exponential:
    case KernelKind::matern_3_2:
    case KernelKind::matern_5_2: return of_squares(single ? 32.0 : 0.0);
    default: return Arithmetic::wide;
    }
}
inline bool is_right_in_float32(const KernelWork<float>& work, Accuracy accuracy, int n_threads) {
    return arithmetic_of(work, accuracy, n_threads) == Arithmetic::products;
}

// Fills `out`; false, with `out` undefined, if squared distances overflow.
template <class In>
bool kernel_block(const KernelWork<In>& work, Accuracy accuracy, int n_threads) {
    if (work.n * work.m * (work.d + 20) < 5 * kWorthThreads) n_threads = 1;
    const KernelTables& tables = kernel_loops();
    if constexpr (sizeof(In) == 8) {
        return fill_kernel(tables.f64, work, n_threads);
    } else {
        const Arithmetic arithmetic = arithmetic_of(work, accuracy, n_threads);
        if (arithmetic == Arithmetic::wide) return fill_kernel(tables.f32_in_f64, work, n_threads);
        std::vector<double> usual;
        KernelWork<float> narrow = work;
        if (accuracy == Accuracy::single) narrow = with_few_inputs(work, usual);
        narrow.differences = arithmetic == Arithmetic::differences;
        narrow.fine = accuracy == Accuracy::full;
        return fill_kernel(tables.f32, narrow, n_threads);
    }
}

}  // namespace mercer
