// Sums over codes, the two halves of every product with a binned matrix: loops.hpp says what is
// computed. Nothing is declared restrict here on purpose: possible overlap keeps compilers from
// using gather instructions, which are slower than plain loads.
#pragma once

#include "loops.hpp"
#include "simd.hpp"

namespace mercer {
namespace {

template <int width, class T>
MERCER_INLINE void add_bin(T (&sum)[width], const T* bin, bool known) {
    for (int q = 0; q < width; ++q) sum[q] += known ? bin[q] : T(0);
}

template <int n_grids, int width, bool missing, class Code, class T>
void gather_rows(const Pass<Code, const T>& pass, std::size_t rows, T* sums, std::size_t step) {
    for (std::size_t i = 0; i < rows; ++i) {
        T* out = sums + i * step;
        T sum[width], part[width] = {};
        for (int q = 0; q < width; ++q) sum[q] = out[q];
        for (int g = 0; g < n_grids; ++g) {
            const std::size_t code = pass.codes[g][i];
            const bool known = !missing || code < pass.n_bins[g];
            const T* bin = pass.tables[g] + (known ? code : 0) * pass.table_step;
            add_bin(g % 2 ? part : sum, bin, known);
        }
        for (int q = 0; q < width; ++q) out[q] = sum[q] + part[q];
    }
}

template <int n_grids, int width, bool missing, class Code, class T>
void scatter_rows(const Pass<Code, double>& pass, std::size_t rows, const T* numbers,
                  std::size_t step) {
    for (std::size_t i = 0; i < rows; ++i) {
        double number[width];
        for (int q = 0; q < width; ++q) number[q] = static_cast<double>(numbers[i * step + q]);
        for (int g = 0; g < n_grids; ++g) {
            std::size_t code = pass.codes[g][i];
            if (missing) code = code < pass.n_bins[g] ? code : pass.n_bins[g];
            double* bin = pass.tables[g] + code * pass.table_step;
            for (int q = 0; q < width; ++q) bin[q] += number[q];
        }
    }
}

// Calls f with the pass's properties as compile-time constants.
template <class P, class F>
MERCER_INLINE void specialise(const P& pass, F f) {
    auto with_width = [&](auto n_grids, auto missing) {
        switch (pass.width) {
        case 16: return f(n_grids, Constant<16>(), missing);
        case 8: return f(n_grids, Constant<8>(), missing);
        case 4: return f(n_grids, Constant<4>(), missing);
        case 2: return f(n_grids, Constant<2>(), missing);
        default: return f(n_grids, Constant<1>(), missing);
        }
    };
    auto with_missing = [&](auto n_grids) {
        return pass.missing ? with_width(n_grids, Constant<1>())
                            : with_width(n_grids, Constant<0>());
    };
    return pass.n_grids == kPassGrids ? with_missing(Constant<kPassGrids>())
                                      : with_missing(Constant<1>());
}

template <class Code, class T>
void gather(const Pass<Code, const T>& pass, std::size_t rows, T* sums, std::size_t step) {
    specialise(pass, [&](auto n_grids, auto width, auto missing) {
        gather_rows<n_grids(), width(), missing() != 0>(pass, rows, sums, step);
    });
}

template <class Code, class T>
void scatter(const Pass<Code, double>& pass, std::size_t rows, const T* numbers, std::size_t step) {
    specialise(pass, [&](auto n_grids, auto width, auto missing) {
        scatter_rows<n_grids(), width(), missing() != 0>(pass, rows, numbers, step);
    });
}

}  // namespace
}  // namespace mercer
