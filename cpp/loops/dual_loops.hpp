// The hot loops of dual kernel machines as plain functions on plain memory, a table per
// instruction-set level as in loops.hpp.
#pragma once

#include <cstddef>

namespace mercer {

// A dual kernel machine minimises
//     b'Kb / 2 + sum_v (extra_v b_v^2 / 2 + linear_v b_v),   lower_v <= b_v <= upper_v.
// What is kept of the kernel matrix K is the vector of sums Kb; the slope of variable v is
// h_v = (Kb)_v + extra_v b_v + linear_v. These are views of some rows.
struct BoxRows {
    const double *linear, *lower, *upper, *extra;
    const double* b;
};

struct Best {
    double score;
    std::size_t at;  // the first of equal ones; the number of rows where there is none
};

template <class Row>
struct DualLoops {
    // changes = the sum of steps_k rows_k over `n_rows` rows, from column `first` on
    void (*combine)(const Row* const* rows, const double* steps, std::size_t n_rows,
                    std::size_t first, std::size_t n, double* changes);
    // sums += step row, then the row that a projected step along its slope would move furthest,
    // scored by that: |clip(b - h) - b|.
    Best (*add_and_find)(const Row* row, double step, const BoxRows& box, double* sums,
                         std::size_t n);
    // What such a step changes, clip(b - h) - b, of all rows; returns the largest score.
    double (*moves)(const BoxRows& box, const double* sums, std::size_t n, double* out);
    // sums += step (row - other)
    void (*add_difference)(const Row* row, const Row* other, double step, double* sums,
                           std::size_t n);
    // The one of the rows that may grow with the least slope, scored by minus the slope, and the
    // largest slope of those that may shrink.
    Best (*find_first)(const BoxRows& box, const double* sums, std::size_t n, double* largest);
    // Its best partner: among rows that may shrink and have a larger slope h, the largest of
    // (h - slope)^2 / curvature, curvature = own + curvature_v - 2 row_v.
    Best (*find_second)(const Row* row, double slope, double own, const double* curvature,
                        const BoxRows& box, const double* sums, std::size_t n);
};

// What takes the place of a curvature that is not positive.
constexpr double kLeastCurvature = 1e-12;

struct DualTables {
    DualLoops<float> f32;
    DualLoops<double> f64;
};

}  // namespace mercer
