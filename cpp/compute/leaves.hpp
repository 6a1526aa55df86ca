// Many small kernel machines, each solved exactly by one thread from start to end.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "leaf_matrix.hpp"
#include "parallel.hpp"

namespace mercer {

// For every leaf and ridge (K + ridge / weights) a + b = y with the sum of a being 0, or without b.
// Workspace of one thread, sized for the largest leaf and reused.
class LeafSolver {
  public:
    LeafSolver(const LeafWork& work, std::size_t most)
        : work_(work), loops_(factor_loops()), maker_(work.kernel, most), k_(work.k),
          matrix_(size_of(most)), factor_(size_of(most)), sides_(padded(most) * (k_ + 1)),
          room_(padded(most) * loops_.room), ridge_(padded(most)), ones_(padded(most)),
          targets_(padded(most) * k_), coef_(padded(most) * k_), kept_(padded(most) * k_),
          errors_(padded(most) * k_), products_(padded(most) * k_), means_(k_), norms_(k_),
          intercept_(k_), kept_intercept_(k_) {}

    void solve(std::size_t leaf) {
        n_ = work_.leaves.size(leaf);
        step_ = padded(n_);
        const bool made = n_ > 0 && maker_.make(work_.x, work_.leaves, leaf, matrix_.data());
        gather_targets(leaf);
        factored_ = 0;
        for (std::size_t r = 0; r < work_.n_ridges; ++r) {
            const double ridge = work_.ridges[r];
            set_ridge(leaf, ridge);
            const bool iterated = made && is_near(ridge) && iterate();
            const double residual = iterated ? find_errors() : solve_anew(made, ridge);
            write(leaf, r, n_ > 0 ? residual : 0.0);
        }
    }

  private:
    static constexpr int kRefinements = 4;
    // A factor also serves for ridges up to so many times larger or smaller, in iterations, where
    // these take less time than another one: at such a residual, for so few targets and so many
    // rows. One of 1000 rows takes 4 ms, iterations for one target .3 ms and for four 2 ms (Zen 5).
    static constexpr double kNear = 4, kRough = 1e-4;
    static constexpr std::size_t kFewTargets = 4, kManyRows = 300;
    static constexpr int kMostIterations = 12;

    std::size_t strips(std::size_t n) const { return (n + loops_.width - 1) / loops_.width; }
    std::size_t padded(std::size_t n) const { return strips(n) * loops_.width; }
    std::size_t size_of(std::size_t n) const {
        if (n >> 30) throw std::bad_alloc();  // or the product would overflow
        return start_of_strip(strips(n), loops_.width);
    }

    // Targets without their means where there is an intercept, and their norms.
    void gather_targets(std::size_t leaf) {
        const std::size_t first = work_.leaves.first(leaf);
        for (std::size_t c = 0; c < k_; ++c) {
            double* const y = targets_.data() + c * step_;
            for (std::size_t i = 0; i < n_; ++i)
                y[i] = work_.targets[work_.leaves.row(first + i) * k_ + c];
            means_[c] = work_.fit_intercept && n_ > 0
                            ? std::accumulate(y, y + n_, 0.0) / static_cast<double>(n_)
                            : 0.0;
            for (std::size_t i = 0; i < n_; ++i) y[i] -= means_[c];
            std::fill(y + n_, y + step_, 0.0);
            norms_[c] = norm(y);
        }
    }
    double norm(const double* numbers) const {
        return std::sqrt(std::inner_product(numbers, numbers + n_, numbers, 0.0));
    }

    void set_ridge(std::size_t leaf, double ridge) {
        const std::size_t first = work_.leaves.first(leaf);
        for (std::size_t i = 0; i < step_; ++i)
            ridge_[i] = i >= n_         ? 0.0
                        : work_.weights ? ridge / work_.weights[work_.leaves.row(first + i)]
                                        : ridge;
    }

    bool is_near(double ridge) const {
        return ridge <= kNear * factored_ && factored_ <= kNear * ridge && !work_.fit_intercept &&
               work_.tol >= kRough && k_ <= kFewTargets && n_ >= kManyRows;
    }

    // The residual, infinite where there is no factor.
    double solve_anew(bool made, double ridge) {
        std::fill_n(coef_.begin(), step_ * k_, 0.0);
        std::fill(intercept_.begin(), intercept_.end(), 0.0);
        factored_ = 0;
        if (!made || !make_factor()) return std::numeric_limits<double>::infinity();
        factored_ = ridge;
        return refine();
    }

    bool make_factor() {
        const std::size_t width = loops_.width;
        std::memcpy(factor_.data(), matrix_.data(), size_of(n_) * sizeof(float));
        for (std::size_t i = 0; i < step_; ++i) {
            float& number =
                factor_.data()[start_of_strip(i / width, width) + i * width + i % width];
            number = i < n_ ? static_cast<float>(static_cast<double>(number) + ridge_[i]) : 1.0f;
        }
        return loops_.factor(factor_.data(), strips(n_), n_);
    }

    // Solves and refines; the residual, infinite where there is no solution.
    double refine() {
        std::copy_n(targets_.begin(), step_ * k_, errors_.begin());
        double best = std::numeric_limits<double>::infinity();
        for (int refined = 0; refined <= kRefinements; ++refined) {
            std::copy_n(coef_.begin(), step_ * k_, kept_.begin());
            kept_intercept_ = intercept_;
            improve(refined == 0);
            const double residual = find_errors();
            if (!(residual < best)) {
                coef_.swap(kept_);
                intercept_.swap(kept_intercept_);
                break;
            }
            const bool halved = residual <= best / 2;
            best = residual;
            if (best <= work_.tol || !halved) break;
        }
        return best;
    }

    // Conjugate gradients for all targets at once, from the coefficients for the last ridge and
    // preconditioned by the factor at hand. Whether the residual is small enough in the end.
    bool iterate() {
        std::vector<double>& directions = kept_;
        std::vector<double> before(k_, 0.0);
        std::fill_n(directions.begin(), step_ * k_, 0.0);
        double residual = find_errors();
        for (int iteration = 0; iteration < kMostIterations && residual > work_.tol; ++iteration) {
            set_sides();
            loops_.solve(factor_.data(), strips(n_), k_, sides_.data(), room_.data());
            std::fill_n(products_.begin(), step_ * k_, 0.0);
            for (std::size_t c = 0; c < k_; ++c) {
                double* const direction = directions.data() + c * step_;
                const float* const change = sides_.data() + c * step_;
                double along = 0;
                for (std::size_t i = 0; i < n_; ++i)
                    along += errors_[c * step_ + i] * static_cast<double>(change[i]);
                along *= largest_[c];
                const double share = before[c] > 0 ? along / before[c] : 0.0;
                for (std::size_t i = 0; i < step_; ++i)
                    direction[i] =
                        largest_[c] * static_cast<double>(change[i]) + share * direction[i];
                before[c] = along;
            }
            loops_.subtract(matrix_.data(), strips(n_), k_, directions.data(), products_.data(),
                            room_.data());
            residual = 0;
            for (std::size_t c = 0; c < k_; ++c) {
                const std::size_t first = c * step_;
                double curvature = 0;
                for (std::size_t i = first; i < first + n_; ++i) {
                    products_[i] = ridge_[i - first] * directions[i] - products_[i];
                    curvature += directions[i] * products_[i];
                }
                const double length = curvature > 0 ? before[c] / curvature : 0.0;
                for (std::size_t i = first; i < first + n_; ++i) {
                    coef_[i] += length * directions[i];
                    errors_[i] -= length * products_[i];
                }
                if (const double error = relative_error(c); !(error <= residual)) residual = error;
            }
        }
        return residual <= work_.tol;
    }

    // The errors in units of the largest of each target: float32 holds them, whatever units are.
    void set_sides() {
        largest_.assign(k_, 0.0);
        for (std::size_t c = 0; c < k_; ++c) {
            const double* const error = errors_.data() + c * step_;
            for (std::size_t i = 0; i < n_; ++i)
                largest_[c] = std::max(largest_[c], std::abs(error[i]));
            for (std::size_t i = 0; i < step_; ++i)
                sides_.data()[c * step_ + i] =
                    static_cast<float>(largest_[c] > 0 ? error[i] / largest_[c] : 0.0);
        }
    }

    // Adds what the factor makes of the errors, so that the sum of the coefficients is 0. With
    // `ones` this is also found for a target of ones, which tells the intercept.
    void improve(bool ones) {
        const std::size_t count = k_ + (ones && work_.fit_intercept);
        set_sides();
        for (std::size_t i = 0; count > k_ && i < step_; ++i)
            sides_.data()[k_ * step_ + i] = i < n_ ? 1.0f : 0.0f;
        loops_.solve(factor_.data(), strips(n_), count, sides_.data(), room_.data());
        if (count > k_) {
            std::copy_n(sides_.data() + k_ * step_, step_, ones_.begin());
            of_ones_ = std::accumulate(ones_.begin(), ones_.begin() + at(n_), 0.0);
        }
        for (std::size_t c = 0; c < k_; ++c) {
            double* const coef = coef_.data() + c * step_;
            const float* const change = sides_.data() + c * step_;
            for (std::size_t i = 0; i < n_; ++i)
                coef[i] += largest_[c] * static_cast<double>(change[i]);
            if (!work_.fit_intercept) continue;
            const double moved = std::accumulate(coef, coef + n_, 0.0) / of_ones_;
            for (std::size_t i = 0; i < n_; ++i) coef[i] -= moved * ones_[i];
            intercept_[c] += moved;
        }
    }

    // errors = targets - intercept - (K + ridge) coef; the largest of them relative to the targets.
    double find_errors() {
        for (std::size_t c = 0; c < k_; ++c)
            for (std::size_t i = 0, j = c * step_; i < n_; ++i, ++j)
                errors_[j] = targets_[j] - intercept_[c] - ridge_[i] * coef_[j];
        loops_.subtract(matrix_.data(), strips(n_), k_, coef_.data(), errors_.data(), room_.data());
        double largest = 0;
        for (std::size_t c = 0; c < k_; ++c) {
            if (const double error = relative_error(c); !(error <= largest)) largest = error;
        }
        return largest;
    }
    double relative_error(std::size_t c) const {
        const double of_errors = norm(errors_.data() + c * step_);
        return of_errors == 0 ? 0.0 : of_errors / norms_[c];
    }

    void write(std::size_t leaf, std::size_t r, double residual) const {
        const LeafRows& leaves = work_.leaves;
        double* const coef =
            work_.coef + (r * leaves.first(leaves.count) + leaves.first(leaf)) * k_;
        for (std::size_t i = 0; i < n_; ++i)
            for (std::size_t c = 0; c < k_; ++c) coef[i * k_ + c] = coef_[c * step_ + i];
        for (std::size_t c = 0; c < k_; ++c)
            work_.intercept[(r * leaves.count + leaf) * k_ + c] = means_[c] + intercept_[c];
        work_.residual[r * leaves.count + leaf] = residual;
    }
    static std::ptrdiff_t at(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

    const LeafWork& work_;
    const FactorLoops& loops_;
    LeafMatrix maker_;
    const std::size_t k_;
    const LinedUp<float> matrix_, factor_, sides_;
    const LinedUp<unsigned char> room_;
    std::vector<double> ridge_, ones_;
    std::vector<double> targets_, coef_, kept_, errors_, products_;  // (k, step)
    std::vector<double> means_, norms_, intercept_, kept_intercept_, largest_;
    double of_ones_ = 0, factored_ = 0;  // the latter is the ridge of the factor, 0 for none
    std::size_t n_ = 0, step_ = 0;
};

// The largest leaves come first, so that no thread is left with one at the end.
template <class Solver, class Work>
void solve_each(const Work& work, int n_threads) {
    const std::size_t count = work.leaves.count;
    std::vector<std::size_t> turn(count);
    std::iota(turn.begin(), turn.end(), std::size_t{0});
    std::stable_sort(turn.begin(), turn.end(), [&](std::size_t a, std::size_t b) {
        return work.leaves.size(a) > work.leaves.size(b);
    });
    const auto useful = std::min(count, static_cast<std::size_t>(std::max(n_threads, 1)));
    std::vector<std::unique_ptr<Solver>> solvers;  // all memory is there before a thread is
    for (std::size_t thread = 0; thread < useful; ++thread)
        solvers.push_back(std::make_unique<Solver>(work, work.leaves.size(turn[0])));
    parallel_for(count, n_threads, [&](std::size_t item, int thread) {
        solvers[static_cast<std::size_t>(thread)]->solve(turn[item]);
    });
}

inline void solve_leaves(const LeafWork& work, int n_threads) {
    solve_each<LeafSolver>(work, n_threads);
}

}  // namespace mercer
