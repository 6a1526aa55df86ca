// Descent along pairs of variables for dual kernel machines whose variables add up to a constant,
// which an intercept asks for. The pair is the one of Fan, Chen and Lin, Working set selection
// using second order information, JMLR 2005.
#pragma once

#include <algorithm>
#include <cstddef>

#include "dual.hpp"

namespace mercer {

// Until no pair of n variables violates the conditions of optimality by more than `tol`, or after
// `max_updates` pairs. `matrix` (n, n) is K, and all of the sums move.
template <class Row>
Ran descend_pairs(const Row* matrix, std::size_t n, const Dual& dual, double tol,
                  std::size_t max_updates) {
    const DualLoops<Row>& loops = dual_loops<Row>();
    const BoxRows box = dual.rows(0);
    for (std::size_t n_updates = 0;; ++n_updates) {
        double steepest;
        const Best first = loops.find_first(box, dual.sums, n, &steepest);
        const double least = -first.score, violation = std::max(steepest - least, 0.0);
        const Ran ran{n_updates, 0, violation};
        if (!(violation > tol) || n_updates == max_updates) return ran;
        const std::size_t i = first.at;
        const Row* const row = matrix + i * n;
        const Best second =
            loops.find_second(row, least, dual.curvature[i], dual.curvature, box, dual.sums, n);
        if (second.at == n) return ran;
        const std::size_t j = second.at;
        const double along =
            dual.curvature[i] + dual.curvature[j] - 2.0 * static_cast<double>(row[j]);
        const double slope = dual.sums[j] + dual.extra[j] * dual.b[j] + dual.linear[j];
        const double grows = dual.upper[i] - dual.b[i], shrinks = dual.b[j] - dual.lower[j];
        const double step =
            std::min((slope - least) / std::max(along, kLeastCurvature), std::min(grows, shrinks));
        dual.b[i] = step == grows ? dual.upper[i] : dual.b[i] + step;
        dual.b[j] = step == shrinks ? dual.lower[j] : dual.b[j] - step;
        loops.add_difference(row, matrix + j * n, step, dual.sums, n);
    }
}

}  // namespace mercer
