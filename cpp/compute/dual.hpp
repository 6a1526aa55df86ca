// What the solvers of dual kernel machines share: the problem as they see it, and its loops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "dual_loops.hpp"
#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const DualTables dual_loops_v2, dual_loops_v3, dual_loops_v4;
inline const DualTables* const dual_tables[] = {&dual_loops_v2, &dual_loops_v3, &dual_loops_v4};
#else
extern const DualTables dual_loops_baseline;
inline const DualTables* const dual_tables[] = {&dual_loops_baseline};
#endif

template <class Row>
const DualLoops<Row>& dual_loops() {
    static const DualTables& chosen = *dual_tables[choose_level()];
    if constexpr (sizeof(Row) == 4)
        return chosen.f32;
    else
        return chosen.f64;
}

// The problem that dual_loops.hpp says, with the diagonal of K. Variables are rows; a problem of
// pairs may have several variables for each row, those of row r at r, n + r, ...
struct Dual {
    const double *linear, *lower, *upper, *extra;
    const double* curvature;  // K_vv + extra_v
    double* b;
    double* sums;  // (n): Kb

    BoxRows rows(std::size_t first) const {
        return {linear + first, lower + first, upper + first, extra + first, b + first};
    }
};

// sums += the sum of steps_k rows_k over rows of n numbers, the same with any number of threads.
template <class Row>
void add_rows(const std::vector<const Row*>& rows, const double* steps, std::size_t n, double* sums,
              int n_threads) {
    constexpr std::size_t kPiece = 1024;
    const DualLoops<Row>& loops = dual_loops<Row>();
    parallel_for((n + kPiece - 1) / kPiece, n * rows.size() < (1 << 18) ? 1 : n_threads,
                 [&](std::size_t piece, int) {
                     const std::size_t first = piece * kPiece, count = std::min(kPiece, n - first);
                     double changes[kPiece];
                     loops.combine(rows.data(), steps, rows.size(), first, count, changes);
                     for (std::size_t k = 0; k < count; ++k) sums[first + k] += changes[k];
                 });
}

struct Ran {
    std::size_t n_updates;
    std::size_t n_rows;  // that had to be made
    double score;        // what the stopping rule saw last
};

}  // namespace mercer
