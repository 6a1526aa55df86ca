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
                loops.tile(work.kind,
                           {points.numbers.data() + start * d, columns.numbers_of(q / right),
                            points.squares.data() + start, columns.squares.data() + q,
                            work.x + (first + start) * d, work.y + q * d, work.scale,
                            weights.data(), d, std::min(strip, rows - start),
                            std::min(right, m - q), static_cast<T>(work.parameter),
                            work.out + (first + start) * m + q, m,
                            nonzeros ? nonzeros->starts.data() + 2 * start : nullptr,
                            nonzeros ? nonzeros->places.data() : nullptr,
                            nonzeros ? nonzeros->values.data() : nullptr});
    });
    return small;
}

// The longest scaled row, squared, and how many are longer than `length`, squared.
struct Lengths {
    double longest = 0;
    std::size_t n_longer = 0;
};
inline Lengths lengths_of(const float* rows, std::size_t n, const KernelWork<float>& work,
                          double length, int n_threads) {
    constexpr std::size_t block = 1024;
    std::vector<Lengths> found((n + block - 1) / block);
    if (n * work.d < kWorthThreads) n_threads = 1;
    parallel_for(found.size(), n_threads, [&](std::size_t b, int) {
        for (std::size_t i = b * block; i < std::min((b + 1) * block, n); ++i) {
            const double square =
                kernel_loops().squared_norm(rows + i * work.d, work.centre, work.scale, work.d);
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

// Whether float32 arithmetic gives the kernel as accurately as that. What is summed up from
// differences has a small relative error; the expanded square has an error of about the squared
// lengths times 1e-7. Of long rows, the squares that would show it are computed once more, which
// only a few rows may want.
inline bool is_right_in_float32(const KernelWork<float>& work, Accuracy accuracy, int n_threads) {
    const bool single = accuracy == Accuracy::single;
    const auto ordinary = [](double scale) { return scale > 1e-12 && scale < 1e12; };
    const auto none_longer = [&](const float* rows, std::size_t n) {
        return lengths_of(rows, n, work, 1.5, n_threads).n_longer == 0;
    };
    const auto few_long = [&](const float* rows, std::size_t n) {
        const Lengths lengths = lengths_of(rows, n, work, 32.0, n_threads);
        return lengths.n_longer * 16 <= n && lengths.longest < 1e30;
    };
    const auto both = [&](auto test) {
        return test(work.x, work.n) && (work.x == work.y || test(work.y, work.m));
    };
    switch (work.kind) {
    case KernelKind::laplacian: return std::all_of(work.scale, work.scale + work.d, ordinary);
    case KernelKind::cauchy:
        return single && std::all_of(work.scale, work.scale + work.d, ordinary);
    case KernelKind::gaussian:
    case KernelKind::rational: return single ? both(few_long) : both(none_longer);
    case KernelKind::exponential:
    case KernelKind::matern_3_2:
    case KernelKind::matern_5_2: return single && both(few_long);
    default: return false;
    }
}

// Fills `out`; false, with `out` undefined, if squared distances overflow.
template <class In>
bool kernel_block(const KernelWork<In>& work, Accuracy accuracy, int n_threads) {
    if (work.n * work.m * (work.d + 20) < 5 * kWorthThreads) n_threads = 1;
    const KernelTables& tables = kernel_loops();
    if constexpr (sizeof(In) == 8) {
        return fill_kernel(tables.f64, work, n_threads);
    } else {
        if (!is_right_in_float32(work, accuracy, n_threads))
            return fill_kernel(tables.f32_in_f64, work, n_threads);
        if (accuracy == Accuracy::full) return fill_kernel(tables.f32, work, n_threads);
        std::vector<double> usual;
        return fill_kernel(tables.f32, with_few_inputs(work, usual), n_threads);
    }
}

}  // namespace mercer
