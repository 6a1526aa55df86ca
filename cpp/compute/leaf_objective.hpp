// A loss of the rows of a leaf: its sum, its slopes and its curvature W = R R', R being a scale D
// times, for a loss of all outputs of a row together, a projection P within rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "leaf_losses.hpp"
#include "leaf_matrix.hpp"

namespace mercer {

// For every leaf and ridge the least of  sum of weights * loss(y, K a + b) + ridge / 2 a'K a.
// `intercept` holds constant models at first, to whose residuals others are relative.
struct NewtonWork : LeafWork {
    LeafLoss loss;
    double parameter;
    std::size_t max_iter;  // most steps
    std::int64_t* steps;   // (n_ridges, leaves)
};

// Arrays are (k, step), what fills up the rows being 0. A group of outputs is minimised by itself:
// all of them for the multinomial loss, one for others.
class LeafObjective {
  public:
    LeafObjective(const NewtonWork& work, std::size_t step)
        : work_(work), weights_(step), dots_(step), targets_(step * work.k), scale_(step * work.k),
          shares_(work.k), sums_(work.k), matrix_(joint() ? work.k * work.k : 0), totals_(work.k),
          values_(groups()) {}

    bool joint() const { return work_.loss == LeafLoss::multinomial; }
    std::size_t width() const { return joint() ? work_.k : 1; }  // outputs of a group
    std::size_t groups() const { return joint() ? std::min<std::size_t>(work_.k, 1) : work_.k; }
    std::size_t first(std::size_t group) const { return group * width() * step_; }
    std::size_t length() const { return width() * step_; }  // of a group
    void gather(std::size_t leaf, std::size_t step) {
        n_ = work_.leaves.size(leaf), step_ = step, total_weight_ = 0;
        std::fill(targets_.begin(), targets_.end(), 0.0);
        std::fill(weights_.begin(), weights_.end(), 1.0);
        for (std::size_t i = 0; i < n_; ++i) {
            const std::size_t row = work_.leaves.row(work_.leaves.first(leaf) + i);
            if (work_.weights) weights_[i] = work_.weights[row];
            total_weight_ += weights_[i];
            for (std::size_t c = 0; c < work_.k; ++c)
                targets_[c * step + i] = work_.targets[row * work_.k + c];
        }
    }

    // The slopes of a group at responses linear + b. Its curvature is that of these responses until
    // the next call, as is the value that `outset` tells.
    void derive(std::size_t group, const double* linear, const double* b, double* slopes) {
        const double* const y = targets(group);
        double* const scale = scale_.data() + first(group);
        Losses losses;
        for (std::size_t i = 0; i < n_; ++i) {
            const double root = std::sqrt(weights_[i]);
            if (joint()) {
                losses.value += weights_[i] * shares_of(linear, b, i, y);
                for (std::size_t c = 0, j = i; c < work_.k; ++c, j += step_) {
                    slopes[j] = weights_[i] * (shares_[c] - y[j]);
                    scale[j] = root * std::sqrt(shares_[c]);
                }
            } else {
                const RowLoss at = row_loss(work_.loss, work_.parameter, linear[i] + b[0], y[i]);
                slopes[i] = weights_[i] * at.slope;
                scale[i] = root * std::sqrt(at.bend);
                losses.add(at, weights_[i], work_.weights);
            }
        }
        values_[group] = losses.sum();
        sum_curvature(group);
    }

    struct Along {
        double value, slope, terms;  // the last is the sum of the slope's absolute terms
    };
    // The sum of losses at linear + b + t (moved + shift), and its derivative by t.
    Along along(std::size_t group, const double* linear, const double* b, const double* moved,
                const double* shift, double t) {
        const double* const y = targets(group);
        Along sum{0, 0, 0};
        Losses losses;
        for (std::size_t i = 0; i < n_; ++i) {
            double slope = 0;
            if (joint()) {
                for (std::size_t c = 0, j = i; c < work_.k; ++c, j += step_)
                    sums_[c] = linear[j] + b[c] + t * (moved[j] + shift[c]);
                losses.value += weights_[i] * loss_of_sums(y + i);
                for (std::size_t c = 0, j = i; c < work_.k; ++c, j += step_)
                    slope += (shares_[c] - y[j]) * (moved[j] + shift[c]);
            } else {
                const double way = moved[i] + shift[0];
                const RowLoss at =
                    row_loss(work_.loss, work_.parameter, linear[i] + b[0] + t * way, y[i]);
                slope = at.slope * way;
                losses.add(at, weights_[i], work_.weights);
            }
            slope *= weights_[i];
            sum.slope += slope;
            sum.terms += std::abs(slope);
        }
        sum.value = losses.sum();
        return sum;
    }
    // The same for t = 0, by the slopes that the last `derive` has told.
    Along outset(std::size_t group, const double* slopes, const double* moved,
                 const double* shift) {
        Along sum{values_[group], 0, 0};
        std::fill_n(dots_.begin(), n_, 0.0);
        for (std::size_t c = 0; c < width(); ++c)
            for (std::size_t i = 0, j = c * step_; i < n_; ++i, ++j)
                dots_[i] += slopes[j] * (moved[j] + shift[c]);
        for (std::size_t i = 0; i < n_; ++i) {
            sum.slope += dots_[i];
            sum.terms += std::abs(dots_[i]);
        }
        return sum;
    }

    // The square of the norm of slopes + ridge a, as it is for weights 1, and of their mean.
    double residual(const double* slopes, const double* a, double ridge) const {
        double square = 0;
        for (std::size_t j = 0; j < length(); j += step_) {
            double total = 0;
            for (std::size_t i = 0; i < n_; ++i) {
                const double left = slopes[j + i] + ridge * a[j + i];
                square += left * left / weights_[i];
                total += slopes[j + i];
            }
            if (work_.fit_intercept) square += total * total / total_weight_;
        }
        return square;
    }
    double size_of_targets(std::size_t group) const {
        double square = 0;
        for (std::size_t j = 0; j < length(); ++j)
            square += weights_[j % step_] * targets(group)[j] * targets(group)[j];
        return std::sqrt(square);
    }
    // The standard deviation of the targets of an output.
    double spread(std::size_t output) const {
        const double* const y = targets_.data() + output * step_;
        const auto n = static_cast<double>(n_);
        const double mean = std::accumulate(y, y + n_, 0.0) / n;
        double square = 0;
        for (std::size_t i = 0; i < n_; ++i) square += (y[i] - mean) * (y[i] - mean);
        return std::sqrt(square / n);
    }

    // ---- curvature of a group -------------------------------------------------------------------

    const double* scale(std::size_t group) const { return scale_.data() + first(group); }

    // The constants c for which W c adds up to sums, in their place; 0 without an intercept.
    void to_shift(std::size_t group, double* sums) const {
        if (!work_.fit_intercept)
            std::fill_n(sums, width(), 0.0);
        else if (!joint())
            sums[0] /= totals_[group];
        else
            solve_constants(sums);
    }
    // The constants c for which W (v - c) adds up to nothing.
    void mean(std::size_t group, const double* v, double* c) {
        const double* const d = scale(group);
        row_dots(d, v, true);
        for (std::size_t j = 0; j < width(); ++j) {
            double sum = 0;
            for (std::size_t i = 0, at = j * step_; i < n_; ++i, ++at)
                sum += d[at] * d[at] * (v[at] - dots_[i]);
            c[j] = sum;
        }
        to_shift(group, c);
    }
    // out = R'(v - c)
    void transposed(std::size_t group, const double* v, const double* c, double* out) {
        const double* const d = scale(group);
        for (std::size_t j = 0; j < width(); ++j)
            for (std::size_t i = 0; i < n_; ++i)
                out[j * step_ + i] = d[j * step_ + i] * (v[j * step_ + i] - c[j]);
        project(d, out);
    }
    // out = R v
    void root(std::size_t group, const double* v, double* out) {
        const double* const d = scale(group);
        row_dots(d, v, false);
        for (std::size_t j = 0; j < width() * step_; j += step_)
            for (std::size_t i = 0; i < n_; ++i)
                out[j + i] = d[j + i] * (v[j + i] - d[j + i] * dots_[i]);
    }
    // v less what of it is within R'1, which the intercept takes
    void centre(std::size_t group, double* v, double* room) {
        const double* const d = scale(group);
        project(d, v);
        for (std::size_t j = 0; j < width(); ++j)  // P v = v
            sums_[j] = std::inner_product(v + j * step_, v + j * step_ + n_, d + j * step_, 0.0);
        to_shift(group, sums_.data());
        if (!work_.fit_intercept) return;
        for (std::size_t j = 0; j < width(); ++j)
            for (std::size_t i = 0; i < n_; ++i) room[j * step_ + i] = d[j * step_ + i] * sums_[j];
        project(d, room);
        for (std::size_t j = 0; j < width() * step_; j += step_)
            for (std::size_t i = 0; i < n_; ++i) v[j + i] -= room[j + i];
    }

  private:
    const double* targets(std::size_t group) const { return targets_.data() + first(group); }

    static constexpr double kFlat = 1e-10;  // of the weights: a curvature that counts as none

    double loss_of_sums(const double* y) {
        return multinomial_loss(sums_.data(), y, work_.k, step_, shares_.data());
    }
    double shares_of(const double* linear, const double* b, std::size_t i, const double* y) {
        for (std::size_t c = 0, j = i; c < work_.k; ++c, j += step_) sums_[c] = linear[j] + b[c];
        return loss_of_sums(y + i);
    }
    // Within rows D'v / s, or D'D v / s: what P takes away is D times that.
    void row_dots(const double* d, const double* v, bool squared) {
        std::fill_n(dots_.begin(), step_, 0.0);
        if (!joint()) return;
        for (std::size_t j = 0; j < work_.k * step_; j += step_)
            for (std::size_t i = 0; i < n_; ++i)
                dots_[i] += d[j + i] * (squared ? d[j + i] : 1.0) * v[j + i];
        for (std::size_t i = 0; i < n_; ++i) dots_[i] /= weights_[i];
    }
    void project(const double* d, double* v) {
        if (!joint()) return;
        row_dots(d, v, false);
        for (std::size_t j = 0; j < work_.k * step_; j += step_)
            for (std::size_t i = 0; i < n_; ++i) v[j + i] -= d[j + i] * dots_[i];
    }

    // What turns sums over rows into constants. Where the loss is linear a step of any length does:
    // that of unit curvature is tried.
    void sum_curvature(std::size_t group) {
        const std::size_t k = width();
        for (std::size_t c = group * k; c < (group + 1) * k; ++c) {
            const double* const d = scale_.data() + c * step_;
            totals_[c] = std::inner_product(d, d + n_, d, 0.0);
            if (!joint() && !(totals_[c] > kFlat * total_weight_)) totals_[c] = total_weight_;
        }
        if (joint()) factor_constants();
    }
    // The factor L of the sum of W over rows, which is that of diag(D D) - D D' D D' / s, raised
    // where all constants alike would leave it singular, and by what rounding leaves.
    void factor_constants() {
        const std::size_t k = work_.k;
        const double raised = *std::max_element(totals_.begin(), totals_.end()) + kFlat;
        for (std::size_t a = 0; a < k; ++a)
            for (std::size_t b = 0; b <= a; ++b) {
                const double* const left = scale_.data() + a * step_;
                const double* const right = scale_.data() + b * step_;
                double sum = 0;
                for (std::size_t i = 0; i < n_; ++i)
                    sum += left[i] * left[i] * right[i] * right[i] / weights_[i];
                matrix_[a * k + b] = (a == b ? totals_[a] * (1 + kFlat) + kFlat * raised : 0.0) -
                                     sum + raised / static_cast<double>(k);
            }
        for (std::size_t a = 0; a < k; ++a)
            for (std::size_t b = 0; b <= a; ++b) {
                double sum = matrix_[a * k + b];
                for (std::size_t c = 0; c < b; ++c) sum -= matrix_[a * k + c] * matrix_[b * k + c];
                matrix_[a * k + b] = a == b ? std::sqrt(std::max(sum, kFlat * kFlat * raised))
                                            : sum / matrix_[b * k + b];
            }
    }
    void solve_constants(double* sums) const {
        const std::size_t k = work_.k;
        for (std::size_t a = 0; a < k; ++a) {
            for (std::size_t c = 0; c < a; ++c) sums[a] -= matrix_[a * k + c] * sums[c];
            sums[a] /= matrix_[a * k + a];
        }
        for (std::size_t a = k; a-- > 0;) {
            for (std::size_t c = a + 1; c < k; ++c) sums[a] -= matrix_[c * k + a] * sums[c];
            sums[a] /= matrix_[a * k + a];
        }
    }

    const NewtonWork& work_;
    std::size_t n_ = 0, step_ = 0;
    double total_weight_ = 0;
    std::vector<double> weights_, dots_, targets_, scale_, shares_, sums_, matrix_, totals_,
        values_;
};

}  // namespace mercer
