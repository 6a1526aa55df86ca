// Conjugate gradients on the columns that have weights: where the signs stay, the model that
// coordinate descent minimises (descent_loops.hpp) is a quadratic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "descent.hpp"

namespace mercer {

// The quadratic of some columns of Z.
struct Face {
    const std::int64_t* columns;
    std::size_t count;
    const double* diagonal;       // (count): scales residuals
    const double* row_curvature;  // (n), null: ones
    double l2;
    bool centred;  // an intercept goes to where the quadratic is least
};

inline double dot(const double* a, const double* b, std::size_t n) {
    return column_loops<double>().dense_slope(a, b, n);
}

// h e for e = Z x, less its mean under h where an intercept goes along.
inline void curved_moves(const SparseColumns<double>& Z, const Face& face, const double* x,
                         double* e) {
    const double* h = face.row_curvature;
    std::fill(e, e + Z.n, 0.0);
    for (std::size_t k = 0; k < face.count; ++k)
        if (x[k] != 0.0) add_column(Z, static_cast<std::size_t>(face.columns[k]), x[k], e);
    double mean = 0.0;
    if (face.centred) {
        double mass = 0.0, sum = 0.0;
        for (std::size_t i = 0; i < Z.n; ++i) {
            mass += h ? h[i] : 1.0;
            sum += h ? h[i] * e[i] : e[i];
        }
        if (mass > 0.0) mean = sum / mass;
    }
    for (std::size_t i = 0; i < Z.n; ++i) e[i] = (h ? h[i] : 1.0) * (e[i] - mean);
}

// step (count): towards where the gradient of the quadratic, `slope` at 0, vanishes. Ends after
// `turns` products with Z and its transpose, or when the residual, squared and scaled, has fallen
// to the share `fall`; returns the number of turns. `e` (n) is room.
inline std::size_t face_step(const SparseColumns<double>& Z, const Face& face, const double* slope,
                             std::size_t turns, double fall, double* step, double* e) {
    const std::size_t p = face.count;
    std::vector<double> residual(p), scaled(p), direction(p), product(p);
    for (std::size_t k = 0; k < p; ++k) {
        step[k] = 0.0;
        residual[k] = -slope[k];
        scaled[k] = direction[k] = residual[k] / face.diagonal[k];
    }
    double size = dot(residual.data(), scaled.data(), p);
    const double enough = fall * size;
    std::size_t done = 0;
    while (done < turns) {
        ++done;
        curved_moves(Z, face, direction.data(), e);
        for (std::size_t k = 0; k < p; ++k)
            product[k] = column_sum(Z, static_cast<std::size_t>(face.columns[k]), e) /
                             static_cast<double>(Z.n) +
                         face.l2 * direction[k];
        const double curvature = dot(direction.data(), product.data(), p);
        if (!(curvature > 0.0)) break;
        const double by = size / curvature;
        for (std::size_t k = 0; k < p; ++k) {
            step[k] += by * direction[k];
            residual[k] -= by * product[k];
            scaled[k] = residual[k] / face.diagonal[k];
        }
        const double before = size;
        size = dot(residual.data(), scaled.data(), p);
        if (size <= enough) break;
        for (std::size_t k = 0; k < p; ++k) direction[k] = scaled[k] + size / before * direction[k];
    }
    return done;
}

}  // namespace mercer
