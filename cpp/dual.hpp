// What the solvers of dual kernel machines share: the problem as they see it, and its loops.
#pragma once

#include <cstddef>

#include "dual_loops.hpp"
#include "isa.hpp"

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

struct Ran {
    std::size_t n_updates;
    std::size_t n_rows;  // that had to be made
    double score;        // what the stopping rule saw last
};

}  // namespace mercer
