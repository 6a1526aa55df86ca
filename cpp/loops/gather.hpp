// Sums over codes, the two halves of every product with a binned matrix: loops.hpp says what is
// computed. Nothing is declared restrict here on purpose: possible overlap keeps compilers from
// using gather instructions, which are slower than plain loads.
#pragma once

#include "loops.hpp"
#include "simd.hpp"

namespace mercer {
namespace {

// Calls f(q, count) for pieces of [0, width): whole vectors, then 8, 4, 2 and 1 numbers.
template <class T, class F>
MERCER_INLINE void for_each_piece(std::size_t width, F f) {
    std::size_t q = 0;
    for (; q + lanes<T> <= width; q += lanes<T>) f(q, Constant<lanes<T>>());
    const std::size_t rest = width - q;
    if constexpr (lanes<T> > 8)
        if (rest & 8) f(q, Constant<8>()), q += 8;
    if constexpr (lanes<T> > 4)
        if (rest & 4) f(q, Constant<4>()), q += 4;
    if constexpr (lanes<T> > 2)
        if (rest & 2) f(q, Constant<2>()), q += 2;
    if (rest & 1) f(q, Constant<1>());
}

// to[q] += sum of from[0 .. n)[q], q below `width`
template <int n, class T>
MERCER_INLINE void add_rows(T* to, const T* const (&from)[n], std::size_t width) {
    for_each_piece<T>(width, [&](std::size_t q, auto count) MERCER_INLINE_BODY {
        T sum[count()];
        for (int c = 0; c < count(); ++c) sum[c] = from[0][q + c];
        for (int g = 1; g < n; ++g)
            for (int c = 0; c < count(); ++c) sum[c] += from[g][q + c];
        for (int c = 0; c < count(); ++c) sum[c] += to[q + c];
        for (int c = 0; c < count(); ++c) to[q + c] = sum[c];
    });
}

constexpr std::size_t kRowsAhead = 8;  // whose rows of far tables are fetched already

template <class T>
MERCER_INLINE void prefetch([[maybe_unused]] const T* numbers, [[maybe_unused]] std::size_t count) {
#if defined(__GNUC__)
    __builtin_prefetch(numbers);
    __builtin_prefetch(numbers + count - 1);
#endif
}

template <class Code, class P>
MERCER_INLINE std::size_t code_of(const P& pass, int g, std::size_t i) {
    return static_cast<const Code*>(pass.codes[g])[i];
}

// Tables of one column: sums[i * step] += table[code of row i], over the grids of the pass.
template <class Code, int n_grids, bool missing, class T>
MERCER_INLINE void gather_rows(const Pass<const T>& pass, std::size_t rows, T* sums,
                               std::size_t step) {
    for (std::size_t i = 0; i < rows; ++i) {
        T number[n_grids];
        for (int g = 0; g < n_grids; ++g) {
            const std::size_t code = code_of<Code>(pass, g, i);
            const bool known = !missing || code < pass.n_bins[g];
            number[g] = pass.tables[g][known ? code : 0];
            number[g] = known ? number[g] : T(0);
        }
        T sum = number[0];
        for (int g = 1; g < n_grids; ++g) sum += number[g];
        sums[i * step] += sum;
    }
}

constexpr std::size_t kBinBlock = 128;

// Where the bins of some rows are, in tables of several columns. They are found apart from the
// sums, which so need no form of their own for every type of codes.
template <class Number>
struct Bins {
    Number* of[kPassGrids][kBinBlock];
};

// Calls f(bins, first row, rows) for one block of rows after another; `unknown(g)` is where rows
// are sent that have no bin in a grid.
template <class Code, class Number, class Unknown, class F>
MERCER_INLINE void for_each_bins(const Pass<Number>& pass, std::size_t rows, Unknown unknown, F f) {
    Bins<Number> bins;
    for (std::size_t first = 0; first < rows; first += kBinBlock) {
        const std::size_t count = rows - first < kBinBlock ? rows - first : kBinBlock;
        for (std::size_t g = 0; g < pass.n_grids; ++g) {
            const Code* codes = static_cast<const Code*>(pass.codes[g]) + first;
            Number *const table = pass.tables[g], *const none = unknown(g);
            const std::size_t n_bins = pass.n_bins[g], step = pass.table_step;
            for (std::size_t i = 0; i < count; ++i)
                bins.of[g][i] = codes[i] < n_bins ? table + codes[i] * step : none;
        }
        f(bins, first, count);
    }
}

template <int n_grids, class T>
MERCER_INLINE void add_bins(const Pass<const T>& pass, const Bins<const T>& bins, std::size_t rows,
                            T* sums, std::size_t step) {
    const auto ask_for = [&](std::size_t i) MERCER_INLINE_BODY {
        for (int g = 0; g < n_grids; ++g) prefetch(bins.of[g][i], pass.width);
    };
    for (std::size_t i = 0; pass.far && i < kRowsAhead && i < rows; ++i) ask_for(i);
    for (std::size_t i = 0; i < rows; ++i) {
        if (pass.far && i + kRowsAhead < rows) ask_for(i + kRowsAhead);
        const T* bin[n_grids];
        for (int g = 0; g < n_grids; ++g) bin[g] = bins.of[g][i];
        add_rows(sums + i * step, bin, pass.width);
    }
}

template <class T>
[[gnu::noinline]] void gather_bins(const Pass<const T>& pass, const Bins<const T>& bins,
                                   std::size_t rows, T* sums, std::size_t step) {
    switch (pass.n_grids) {
    case 4: return add_bins<4>(pass, bins, rows, sums, step);
    case 2: return add_bins<2>(pass, bins, rows, sums, step);
    default: return add_bins<1>(pass, bins, rows, sums, step);
    }
}

// The bin of a row in a grid, the one after the last if it has none.
template <class Code, bool missing>
MERCER_INLINE std::size_t bin_of(const Pass<double>& pass, int g, std::size_t i) {
    const std::size_t code = code_of<Code>(pass, g, i);
    return missing && code >= pass.n_bins[g] ? pass.n_bins[g] : code;
}

// A function of its own: inlined beside the wider forms it took a tenth more time (Zen 5).
template <class Code, int n_grids, bool missing, class T>
[[gnu::noinline]] void scatter_rows(const Pass<double>& pass, std::size_t rows, const T* numbers,
                                    std::size_t step) {
    for (std::size_t i = 0; i < rows; ++i) {
        const auto number = static_cast<double>(numbers[i * step]);
        for (int g = 0; g < n_grids; ++g)
            pass.tables[g][bin_of<Code, missing>(pass, g, i)] += number;
    }
}

// The columns of some vectors from q on: a row's numbers are widened once for all grids. Where the
// last vector is not full, it takes numbers of the next row along, which nobody reads: rows of
// tables are whole cache lines. `end` is the end of all numbers.
template <int n_grids, int n_vectors, class T>
MERCER_INLINE void scatter_vectors(const Pass<double>& pass, const Bins<double>& bins,
                                   std::size_t rows, const T* numbers, std::size_t step,
                                   std::size_t q, std::size_t end) {
    constexpr std::size_t lane = lanes<double>, width = n_vectors * lane;
    T last[width] = {};
    for (std::size_t i = 0; i < rows; ++i) {
        const T* row = numbers + i * step + q;
        if (i * step + q + width > end) {
            for (std::size_t c = 0; q + c < pass.width && c < width; ++c) last[c] = row[c];
            row = last;
        }
        Vector<double> wide[n_vectors];
        for (int v = 0; v < n_vectors; ++v) wide[v] = widen(row + v * lane);
        for (int g = 0; g < n_grids; ++g) {
            double* to = bins.of[g][i] + q;
            for (int v = 0; v < n_vectors; ++v, to += lane) store(to, load(to) + wide[v]);
        }
    }
}

template <int n_grids, class T>
MERCER_INLINE void scatter_columns(const Pass<double>& pass, const Bins<double>& bins,
                                   std::size_t rows, const T* numbers, std::size_t step,
                                   std::size_t end) {
    constexpr std::size_t lane = lanes<double>;
    for (std::size_t q = 0; q < pass.width;) {
        const std::size_t vectors = (pass.width - q + lane - 1) / lane;
        if (vectors >= 4)
            scatter_vectors<n_grids, 4>(pass, bins, rows, numbers, step, q, end), q += 4 * lane;
        else if (vectors >= 2)
            scatter_vectors<n_grids, 2>(pass, bins, rows, numbers, step, q, end), q += 2 * lane;
        else
            scatter_vectors<n_grids, 1>(pass, bins, rows, numbers, step, q, end), q += lane;
    }
}

template <class T>
[[gnu::noinline]] void scatter_bins(const Pass<double>& pass, const Bins<double>& bins,
                                    std::size_t rows, const T* numbers, std::size_t step,
                                    std::size_t end) {
    switch (pass.n_grids) {
    case 4: return scatter_columns<4>(pass, bins, rows, numbers, step, end);
    case 2: return scatter_columns<2>(pass, bins, rows, numbers, step, end);
    default: return scatter_columns<1>(pass, bins, rows, numbers, step, end);
    }
}

template <class Code, int n_grids, bool missing, class T>
MERCER_INLINE void scatter_twofold(const Pass<double>& pass, std::size_t rows, const T* numbers,
                                   std::size_t step) {
    const auto add = [&](std::size_t i, std::size_t half) MERCER_INLINE_BODY {
        const auto number = static_cast<double>(numbers[i * step]);
        for (int g = 0; g < n_grids; ++g) {
            pass.tables[g][2 * bin_of<Code, missing>(pass, g, i) + half] += number;
        }
    };
    std::size_t i = 0;
    for (; i + 2 <= rows; i += 2) add(i, 0), add(i + 1, 1);
    if (i < rows) add(i, 0);
}

// Calls f for one column with what is known of the pass as compile-time constants.
template <class P, class F>
MERCER_INLINE void specialise(const P& pass, F f) {
    if (pass.n_grids == 4)
        return pass.missing ? f(pass, Constant<4>(), Constant<1>())
                            : f(pass, Constant<4>(), Constant<0>());
    if (pass.n_grids == 2)
        return pass.missing ? f(pass, Constant<2>(), Constant<1>())
                            : f(pass, Constant<2>(), Constant<0>());
    f(pass, Constant<1>(), Constant<1>());
}

template <class Code, class T>
void gather(const Pass<const T>& pass, std::size_t rows, T* sums, std::size_t step) {
    if (pass.width != 1 || pass.table_step != 1)
        return for_each_bins<Code>(
            pass, rows, [&](std::size_t) { return pass.zeros; },
            [&](const Bins<const T>& bins, std::size_t first, std::size_t count) {
                gather_bins(pass, bins, count, sums + first * step, step);
            });
    specialise(pass, [&](const Pass<const T>& part, auto n_grids, auto missing) {
        gather_rows<Code, n_grids(), missing() != 0>(part, rows, sums, step);
    });
}

template <class Code, class T>
void scatter(const Pass<double>& pass, std::size_t rows, const T* numbers, std::size_t step) {
    if (pass.width != 1 || pass.table_step != 1)
        return for_each_bins<Code>(
            pass, rows,
            [&](std::size_t g) { return pass.tables[g] + pass.n_bins[g] * pass.table_step; },
            [&](const Bins<double>& bins, std::size_t first, std::size_t count) {
                const std::size_t end = (rows - 1 - first) * step + pass.width;
                scatter_bins(pass, bins, count, numbers + first * step, step, end);
            });
    specialise(pass, [&](const Pass<double>& part, auto n_grids, auto missing) {
        if (pass.twofold)
            scatter_twofold<Code, n_grids(), missing() != 0>(part, rows, numbers, step);
        else
            scatter_rows<Code, n_grids(), missing() != 0>(part, rows, numbers, step);
    });
}

}  // namespace
}  // namespace mercer
