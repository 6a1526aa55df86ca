// Conjugate gradients on the columns that have weights: where the signs stay, the model that
// coordinate descent minimises (descent_loops.hpp) is a quadratic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
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

// The rows of the columns of a face: a product with Z and one with its transpose are one pass.
class FaceRows {
  public:
    FaceRows(const SparseColumns<double>& Z, const Face& face)
        : face_(face), n_(Z.n), unit_(Z.scale * Z.scale / static_cast<double>(Z.n)),
          starts_(Z.n + 1), means_(face.centred ? face.count : 0) {
        for (std::size_t k = 0; k < face.count; ++k)
            for (std::int64_t at = begin(Z, k); at < end(Z, k); ++at) ++starts_[Z.rows[at] + 1];
        for (std::size_t i = 0; i < n_; ++i) starts_[i + 1] += starts_[i];
        places_.resize(static_cast<std::size_t>(starts_[n_]));
        if (Z.values) values_.resize(places_.size());
        fill(Z);
        const double* h = face.row_curvature;
        mass_ = h ? std::accumulate(h, h + n_, 0.0) : static_cast<double>(n_);
        if (!(mass_ > 0.0)) means_.clear();
        if (means_.empty()) return;
        const std::vector<double> ones(h ? 0 : n_, 1.0);
        for (std::size_t k = 0; k < face.count; ++k)
            means_[k] =
                column_sum(Z, static_cast<std::size_t>(face.columns[k]), h ? h : ones.data()) /
                (Z.scale * mass_);
    }

    // product (count) = Z' diag(h) Z x / n for Z less its means under h if there is an intercept,
    // without l2. `moves` (n) becomes Z x / scale, without centring.
    void times(const double* x, double* moves, double* product) const {
        std::fill(product, product + face_.count, 0.0);
        descent_loops().row_products(starts_.data(), places_.data(),
                                     values_.empty() ? nullptr : values_.data(),
                                     face_.row_curvature, n_, x, moves, product);
        double mean = 0.0;
        for (std::size_t k = 0; k < means_.size(); ++k) mean += means_[k] * x[k];
        for (std::size_t k = 0; k < means_.size(); ++k) product[k] -= mass_ * mean * means_[k];
        for (std::size_t k = 0; k < face_.count; ++k) product[k] *= unit_;
    }

  private:
    static constexpr std::size_t kTile = 4096;  // rows whose entries the second cache has room for

    std::int64_t begin(const SparseColumns<double>& Z, std::size_t k) const {
        return Z.starts[face_.columns[k]];
    }
    std::int64_t end(const SparseColumns<double>& Z, std::size_t k) const {
        return Z.starts[face_.columns[k] + 1];
    }
    void fill(const SparseColumns<double>& Z) {
        std::vector<std::int64_t> next(starts_.begin(), starts_.end() - 1), from(face_.count);
        for (std::size_t k = 0; k < face_.count; ++k) from[k] = begin(Z, k);
        for (std::size_t row = 0; row < n_; row += kTile)
            for (std::size_t k = 0; k < face_.count; ++k) {
                std::int64_t at = from[k];
                for (const std::int64_t last = end(Z, k); at < last && Z.rows[at] < row + kTile;
                     ++at) {
                    const auto to = static_cast<std::size_t>(next[Z.rows[at]]++);
                    places_[to] = static_cast<std::uint32_t>(k);
                    if (Z.values) values_[to] = Z.values[at];
                }
                from[k] = at;
            }
    }

    const Face& face_;
    std::size_t n_;
    double unit_, mass_ = 0.0;
    std::vector<std::int64_t> starts_;   // (n + 1): where the entries of a row begin
    std::vector<std::uint32_t> places_;  // of their columns in the face
    std::vector<double> values_;         // empty: all are 1
    std::vector<double> means_;          // of columns under h, in units of the scale; or empty
};

// step (count): towards where the gradient of the quadratic, `slope` at 0, vanishes. Ends after
// `turns` products with Z and its transpose, or when the residual, squared and scaled, has fallen
// to the share `fall`; returns the number of turns. `moves` (n) becomes Z step.
inline std::size_t face_step(const SparseColumns<double>& Z, const Face& face, const double* slope,
                             std::size_t turns, double fall, double* step, double* moves) {
    const std::size_t p = face.count;
    const FaceRows rows(Z, face);
    std::vector<double> residual(p), scaled(p), direction(p), product(p), e(Z.n);
    std::fill(moves, moves + Z.n, 0.0);
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
        rows.times(direction.data(), e.data(), product.data());
        for (std::size_t k = 0; k < p; ++k) product[k] += face.l2 * direction[k];
        const double curvature = dot(direction.data(), product.data(), p);
        if (!(curvature > 0.0)) break;
        const double by = size / curvature;
        for (std::size_t i = 0; i < Z.n; ++i) moves[i] += by * Z.scale * e[i];
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
