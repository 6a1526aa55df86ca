// Parts of Newton's method for small kernel machines: equations of a step, memory, the length of a
// step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <new>
#include <vector>

#include "leaf_objective.hpp"

namespace mercer {

// The equations of a step of one output with independent rows of curvature: with A these rows,
// (K + ridge / w) change + shift = rest / w  in A, the change being known elsewhere. A factor in
// float32 serves again where A and w are the same.
class StepFactor {
  public:
    StepFactor(const FactorLoops& loops, std::size_t step, std::size_t size)
        : loops_(loops), factor_(size), sides_(2 * step), room_(step * loops.room) {}

    void forget() { made_ = false; }

    // Rows whose curvature w = D D tells from 0 next to the ridge, in units of the kernel.
    std::size_t choose(const double* scale, std::size_t n, double ridge, double kernel) {
        next_rows_.clear();
        next_ridge_.clear();
        for (std::size_t i = 0; i < n; ++i)
            if (const double w = scale[i] * scale[i]; w * kernel > kNone * ridge) {
                next_rows_.push_back(i);
                next_ridge_.push_back(ridge / w);
            }
        return next_rows_.size();
    }
    // The factor of the rows chosen last; false if there is none.
    bool make(const float* matrix) {
        if (made_ && rows_ == next_rows_ && ridge_ == next_ridge_) return true;
        rows_.swap(next_rows_);
        ridge_.swap(next_ridge_);
        const std::size_t n = rows_.size(), width = loops_.width, strips = (n + width - 1) / width;
        for (std::size_t s = 0; s < strips; ++s) {
            const std::size_t columns = std::min(width, n - s * width);
            float* row = factor_.data() + start_of_strip(s, width);
            columns_.resize(columns);
            for (std::size_t q = 0; q < columns; ++q) {
                const std::size_t column = rows_[s * width + q];
                columns_[q] = matrix + start_of_strip(column / width, width) + column % width;
            }
            for (std::size_t i = 0; i < (s + 1) * width; ++i, row += width) {
                std::fill_n(row, width, 0.0f);
                const std::size_t first = i < s * width ? 0 : i - s * width;
                if (i < n)
                    for (std::size_t q = first; q < columns; ++q)
                        row[q] = columns_[q][rows_[i] * width];
                if (i < s * width) continue;
                row[first] =
                    i < n ? static_cast<float>(static_cast<double>(row[first]) + ridge_[i]) : 1.0f;
            }
        }
        made_ = loops_.factor(factor_.data(), strips, n);
        return made_;
    }
    // change += what solves the equations for `rest`, with the sum `sum`; to the shift, likewise.
    void solve(const double* rest, const double* scale, bool shifts, double sum, double* change,
               double& shift) {
        const std::size_t n = rows_.size(), width = loops_.width;
        const std::size_t strips = (n + width - 1) / width, step = strips * width;
        double largest = 0, of_sides = 0, of_ones = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const double d = scale[rows_[i]];
            largest = std::max(largest, std::abs(rest[rows_[i]]) / (d * d));
        }
        float *const sides = sides_.data(), *const ones = sides + step;
        std::fill_n(sides, 2 * step, 0.0f);
        for (std::size_t i = 0; i < n; ++i) {
            const double d = scale[rows_[i]];
            sides[i] = static_cast<float>(largest > 0 ? rest[rows_[i]] / (d * d) / largest : 0.0);
            ones[i] = 1.0f;
        }
        loops_.solve(factor_.data(), strips, shifts ? 2 : 1, sides, room_.data());
        for (std::size_t i = 0; shifts && i < n; ++i) {
            of_sides += static_cast<double>(sides[i]);
            of_ones += static_cast<double>(ones[i]);
        }
        const double moved = of_ones > 0 ? (largest * of_sides - sum) / of_ones : 0.0;
        for (std::size_t i = 0; i < n; ++i)
            change[rows_[i]] += largest * static_cast<double>(sides[i]) -
                                (shifts ? moved * static_cast<double>(ones[i]) : 0.0);
        if (shifts) shift += moved;
    }

  private:
    static constexpr double kNone = 1e-7;  // rounding of float32

    const FactorLoops& loops_;
    const LinedUp<float> factor_, sides_;
    const LinedUp<unsigned char> room_;
    std::vector<std::size_t> rows_, next_rows_;
    std::vector<double> ridge_, next_ridge_;
    std::vector<const float*> columns_;
    bool made_ = false;
};

// The kernel of a leaf, and numbers for all outputs, (k, step), in a solution by steps.
class NewtonRoom {
  public:
    NewtonRoom(const LeafKernel& kernel, std::size_t most, std::size_t k)
        : k_(k), loops_(factor_loops()), maker_(kernel, most), matrix_(size_of(most)),
          room_(padded(most) * loops_.room), factor_(loops_, padded(most), size_of(most)),
          arrays_(9, std::vector<double>(padded(most) * k)), numbers_(4, std::vector<double>(k)) {}

  protected:
    double* coef() { return arrays_[0].data(); }
    double* linear() { return arrays_[1].data(); }  // K coef
    double* slopes() { return arrays_[2].data(); }
    double* change() { return arrays_[3].data(); }  // of coef, in a step
    double* moved() { return arrays_[4].data(); }   // K change
    double* rest() { return arrays_[5].data(); }    // of the equations of a step
    double* direction() { return arrays_[6].data(); }
    double* sides() { return arrays_[7].data(); }  // of products
    double* sums() { return arrays_[8].data(); }
    double* intercept() { return numbers_[0].data(); }
    double* shift() { return numbers_[1].data(); }  // of the intercept, in a step
    double* constant() { return numbers_[2].data(); }

    std::size_t strips(std::size_t n) const { return (n + loops_.width - 1) / loops_.width; }
    std::size_t padded(std::size_t n) const { return strips(n) * loops_.width; }
    std::size_t size_of(std::size_t n) const {
        if (n >> 30) throw std::bad_alloc();  // or the product would overflow
        return start_of_strip(strips(n), loops_.width);
    }

    // Makes the kernel of the n rows of a leaf; false if squared distances overflow.
    bool make(const float* x, const LeafRows& leaves, std::size_t leaf) {
        n_ = leaves.size(leaf);
        step_ = padded(n_);
        for (auto& array : arrays_) std::fill(array.begin(), array.end(), 0.0);
        factor_.forget();
        largest_ = 0;
        if (n_ == 0 || !maker_.make(x, leaves, leaf, matrix_.data())) return false;
        for (std::size_t i = 0, width = loops_.width; i < n_; ++i) {
            const float* const strip = matrix_.data() + start_of_strip(i / width, width);
            largest_ = std::max(largest_, static_cast<double>(strip[i * width + i % width]));
        }
        return true;
    }

    // sides = K sides for as many outputs, which stand one after the other; in float32 if `single`.
    void multiply(std::size_t outputs, bool single = false) {
        if (single) return multiply_single(outputs);
        std::fill_n(sums(), outputs * step_, 0.0);
        loops_.subtract(matrix_.data(), strips(n_), outputs, sides(), sums(), room_.data());
        for (std::size_t i = 0; i < outputs * step_; ++i) sides()[i] = -sums()[i];
    }

    void multiply_single(std::size_t outputs) {
        single_.resize(2 * padded(n_) * k_);
        float *const given = single_.data(), *const product = given + outputs * step_;
        units_.resize(outputs);
        for (std::size_t c = 0; c < outputs; ++c) {
            const double* const side = sides() + c * step_;
            double most = 0;  // its unit, so that nothing overflows
            for (std::size_t i = 0; i < n_; ++i) most = std::max(most, std::abs(side[i]));
            units_[c] = most;
            for (std::size_t i = 0; i < step_; ++i)
                given[c * step_ + i] = static_cast<float>(most > 0 ? side[i] / most : 0.0);
        }
        std::fill_n(product, outputs * step_, 0.0f);
        loops_.subtract_single(matrix_.data(), strips(n_), outputs, given, product, room_.data());
        for (std::size_t c = 0; c < outputs; ++c)
            for (std::size_t i = c * step_; i < (c + 1) * step_; ++i)
                sides()[i] = -units_[c] * static_cast<double>(product[i]);
    }

    void write(const NewtonWork& work, std::size_t leaf, std::size_t r, std::int64_t steps,
               double residual) {
        const LeafRows& leaves = work.leaves;
        double* const out = work.coef + (r * leaves.first(leaves.count) + leaves.first(leaf)) * k_;
        for (std::size_t i = 0; i < n_; ++i)
            for (std::size_t c = 0; c < k_; ++c) out[i * k_ + c] = coef()[c * step_ + i];
        for (std::size_t c = 0; c < k_; ++c)
            work.intercept[(r * leaves.count + leaf) * k_ + c] = intercept()[c];
        work.residual[r * leaves.count + leaf] = residual;
        work.steps[r * leaves.count + leaf] = steps;
    }

    const std::size_t k_;
    const FactorLoops& loops_;
    LeafMatrix maker_;
    const LinedUp<float> matrix_;
    const LinedUp<unsigned char> room_;
    StepFactor factor_;
    std::vector<std::vector<double>> arrays_, numbers_;
    std::vector<float> single_;  // sides and their products in float32
    std::vector<double> units_;
    double largest_ = 0;  // of the kernel
    std::size_t n_ = 0, step_ = 0;
};

// How far along a step F(t) has fallen and is nearly flat, of which along(t) has value, slope and
// the sum of the slope's absolute terms; 0 for nowhere. It is convex: where it rises too steeply a
// secant leads back, and where it still falls as steeply as at half of the start the length is
// doubled. `fell` says whether it is less by more than rounding.
template <class F>
double step_length(F along, bool& fell) {
    constexpr double noise = 10 * std::numeric_limits<double>::epsilon(), shorter = 0.05;
    constexpr double infinite = std::numeric_limits<double>::infinity();
    constexpr int most_trials = 30;
    const auto start = along(0.0);
    if (!(start.slope < 0)) return 0;
    const double rounding = noise * std::abs(start.value);
    const double flat = -start.slope / 2 + noise * start.terms;
    double low = 0, slope_low = start.slope, high = infinite, slope_high = 0, length = 1;
    for (int trial = 0; trial < most_trials; ++trial) {
        const auto now = along(length);
        const bool fallen = now.value <= start.value + rounding;
        fell = now.value < start.value - rounding;
        if (fallen && std::abs(now.slope) <= flat) return length;
        (fallen && now.slope < 0 ? low : high) = length;
        (fallen && now.slope < 0 ? slope_low : slope_high) = now.slope;
        double share = slope_high > slope_low ? slope_low / (slope_low - slope_high) : 0.0;
        if (trial % 2) share = low > 0 ? 0.5 : shorter;  // secants alone may take for ever
        share = std::clamp(share, shorter, 1 - shorter);
        length = high < infinite ? low + share * (high - low) : 2 * length;
    }
    return low;
}

}  // namespace mercer
