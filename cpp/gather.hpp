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

template <class Code, int n_grids, bool missing, bool single, class T>
MERCER_INLINE void gather_rows(const Pass<const T>& pass, std::size_t rows, T* sums,
                               std::size_t step) {
    for (std::size_t i = 0; i < rows; ++i) {
        T number[n_grids];
        const T* bin[n_grids];
        for (int g = 0; g < n_grids; ++g) {
            const std::size_t code = code_of<Code>(pass, g, i);
            const bool known = !missing || code < pass.n_bins[g];
            if constexpr (single) {
                number[g] = pass.tables[g][known ? code : 0];
                number[g] = known ? number[g] : T(0);
            } else {
                bin[g] = known ? pass.tables[g] + code * pass.table_step : pass.zeros;
            }
        }
        if (!single && pass.far && i + kRowsAhead < rows)
            for (int g = 0; g < n_grids; ++g) {
                const std::size_t code = code_of<Code>(pass, g, i + kRowsAhead);
                if (!missing || code < pass.n_bins[g])
                    prefetch(pass.tables[g] + code * pass.table_step, pass.width);
            }
        if constexpr (single) {
            T sum = number[0];
            for (int g = 1; g < n_grids; ++g) sum += number[g];
            sums[i * step] += sum;
        } else {
            add_rows(sums + i * step, bin, pass.width);
        }
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
// tables are whole cache lines.
template <class Code, int n_grids, bool missing, int n_vectors, class T>
MERCER_INLINE void scatter_vectors(const Pass<double>& pass, std::size_t rows, const T* numbers,
                                   std::size_t step, std::size_t q) {
    constexpr std::size_t lane = lanes<double>, width = n_vectors * lane;
    const std::size_t end = (rows - 1) * step + pass.width;  // of all numbers
    const auto add = [&](std::size_t i, const T* row) MERCER_INLINE_BODY {
        Vector<double> wide[n_vectors];
        for (int v = 0; v < n_vectors; ++v) wide[v] = widen(row + v * lane);
        for (int g = 0; g < n_grids; ++g) {
            double* to = pass.tables[g] + bin_of<Code, missing>(pass, g, i) * pass.table_step + q;
            for (int v = 0; v < n_vectors; ++v, to += lane) store(to, load(to) + wide[v]);
        }
    };
    T last[width] = {};
    for (std::size_t i = 0; i < rows; ++i) {
        const T* row = numbers + i * step + q;
        if (i * step + q + width > end) {
            for (std::size_t c = 0; q + c < pass.width && c < width; ++c) last[c] = row[c];
            row = last;
        }
        add(i, row);
    }
}

template <class Code, int n_grids, bool missing, class T>
MERCER_INLINE void scatter_columns(const Pass<double>& pass, std::size_t rows, const T* numbers,
                                   std::size_t step) {
    constexpr std::size_t lane = lanes<double>;
    for (std::size_t q = 0; rows && q < pass.width;) {
        const std::size_t vectors = (pass.width - q + lane - 1) / lane;
        if (vectors >= 4)
            scatter_vectors<Code, n_grids, missing, 4>(pass, rows, numbers, step, q), q += 4 * lane;
        else if (vectors >= 2)
            scatter_vectors<Code, n_grids, missing, 2>(pass, rows, numbers, step, q), q += 2 * lane;
        else
            scatter_vectors<Code, n_grids, missing, 1>(pass, rows, numbers, step, q), q += lane;
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

template <class Code, int n_grids, bool missing, class T>
MERCER_INLINE void scatter_grids(const Pass<double>& pass, std::size_t rows, const T* numbers,
                                 std::size_t step) {
    if (pass.width != 1 || pass.table_step != 1)
        scatter_columns<Code, n_grids, missing>(pass, rows, numbers, step);
    else if (pass.twofold)
        scatter_twofold<Code, n_grids, missing>(pass, rows, numbers, step);
    else
        scatter_rows<Code, n_grids, missing>(pass, rows, numbers, step);
}

// Calls f with properties of the pass as compile-time constants.
template <class P, class F>
MERCER_INLINE void specialise(const P& pass, F f) {
    const auto with_width = [&](auto n_grids, auto missing) {
        pass.width == 1 && pass.table_step == 1 ? f(n_grids, missing, Constant<1>())
                                                : f(n_grids, missing, Constant<0>());
    };
    const auto with_missing = [&](auto n_grids) {
        pass.missing ? with_width(n_grids, Constant<1>()) : with_width(n_grids, Constant<0>());
    };
    switch (pass.n_grids) {
    case 4: return with_missing(Constant<4>());
    case 2: return with_missing(Constant<2>());
    default: return with_missing(Constant<1>());
    }
}

template <class Code, class T>
void gather(const Pass<const T>& pass, std::size_t rows, T* sums, std::size_t step) {
    specialise(pass, [&](auto n_grids, auto missing, auto single) {
        gather_rows<Code, n_grids(), missing() != 0, single() != 0>(pass, rows, sums, step);
    });
}

template <class Code, class T>
void scatter(const Pass<double>& pass, std::size_t rows, const T* numbers, std::size_t step) {
    if (pass.n_grids == 4)
        return pass.missing ? scatter_grids<Code, 4, true>(pass, rows, numbers, step)
                            : scatter_grids<Code, 4, false>(pass, rows, numbers, step);
    if (pass.n_grids == 2 && !pass.missing)
        return scatter_grids<Code, 2, false>(pass, rows, numbers, step);
    Pass<double> one = pass;  // rarer ones share a form, which costs them little
    one.n_grids = 1;
    for (std::size_t g = 0; g < pass.n_grids; ++g) {
        one.codes[0] = pass.codes[g];
        one.tables[0] = pass.tables[g];
        one.n_bins[0] = pass.n_bins[g];
        scatter_grids<Code, 1, true>(one, rows, numbers, step);
    }
}

}  // namespace
}  // namespace mercer
