// Newton's method for many small kernel machines, each by one thread from start to end: the method
// of solvers/machine_newton.py, where its equations stand.
#pragma once

#include <cstdint>
#include <limits>

#include "leaf_objective.hpp"
#include "leaf_step.hpp"
#include "leaves.hpp"

namespace mercer {

class LeafNewton : NewtonRoom {
  public:
    LeafNewton(const NewtonWork& work, std::size_t most)
        : NewtonRoom(work.kernel, most, work.k), work_(work), objective_(work, padded(most)),
          groups_(objective_.groups()), states_(groups_) {}

    void solve(std::size_t leaf) {
        const bool made = make(work_.x, work_.leaves, leaf);
        objective_.gather(leaf, step_);
        for (std::size_t c = 0; c < k_; ++c)
            intercept()[c] = work_.fit_intercept ? work_.intercept[leaf * k_ + c] : 0.0;
        if (made) begin();
        for (std::size_t r = 0; r < work_.n_ridges; ++r) {
            std::int64_t steps = 0;
            if (made) steps = minimise(work_.ridges[r]);
            write(work_, leaf, r, steps, made ? worst() : n_ > 0 ? kInfinite : 0.0);
        }
    }

  private:
    static constexpr double kInfinite = std::numeric_limits<double>::infinity();
    static constexpr double kForcing = 0.2;
    static constexpr double kSingle = 1e-3;  // a tol that sees nothing of products in float32
    // A factor of m rows takes as long as m / 20 products with their kernel (Zen 5, AVX-512).
    static constexpr double kProducts = 20, kFewProducts = 8;
    static constexpr int kMostIterations = 150, kMostIdle = 3, kRounds = 3;
    // As ENOUGH of problem/precision.py: rounding of responses, in units of the targets' spread.
    static constexpr double kRounding = 3e-4;

    struct State {
        double reference, relative, least, goal, slope;
        int idle;
        bool direct, failed;
    };
    using List = std::vector<std::size_t>;
    std::size_t at(std::size_t group) const { return objective_.first(group); }
    std::size_t output(std::size_t group) const { return group * objective_.width(); }
    double dot(const double* left, const double* right) const {
        return std::inner_product(left, left + objective_.length(), right, 0.0);
    }

    void begin() {
        for (std::size_t g = 0; g < groups_; ++g) {
            State& state = states_[g] = State{1, 0, kInfinite, 0, 0, 0, false, false};
            look(g, 0);
            const double size = objective_.size_of_targets(g);
            state.reference = state.relative;
            if (state.reference <= 4 * std::numeric_limits<float>::epsilon() * size)
                state.reference = kInfinite;
        }
    }

    // Slopes, curvature and residual of a group.
    void look(std::size_t g, double ridge) {
        objective_.derive(g, linear() + at(g), intercept() + output(g), slopes() + at(g));
        const double square = objective_.residual(slopes() + at(g), coef() + at(g), ridge);
        states_[g].relative = std::sqrt(square) / states_[g].reference;
    }

    // Steps for one ridge, from where the last one ended; how many there were.
    std::int64_t minimise(double ridge) {
        for (std::size_t g = 0; g < groups_; ++g) {
            look(g, ridge);
            states_[g].least = kInfinite;
            states_[g].idle = 0;
            states_[g].failed = false;
        }
        for (std::size_t step = 0; step < work_.max_iter; ++step) {
            List groups;
            for (std::size_t g = 0; g < groups_; ++g)
                if (!(states_[g].relative <= work_.tol) && !states_[g].failed) groups.push_back(g);
            if (groups.empty()) return static_cast<std::int64_t>(step);
            set_out(groups, ridge);
            iterate(groups, ridge);
            for (std::size_t g : groups) {
                if (!states_[g].failed) advance(g, ridge);
                if (objective_.joint() && states_[g].failed) return static_cast<std::int64_t>(step);
            }
        }
        return static_cast<std::int64_t>(work_.max_iter);
    }

    // The part of a step that needs no equations: change = (r - W shift) / ridge.
    void set_out(const List& groups, double ridge) {
        const std::size_t length = objective_.length(), width = objective_.width();
        double* side = sides();
        for (std::size_t g : groups) {
            double *const b = shift() + output(g), *const delta = change() + at(g);
            for (std::size_t c = 0; c < width; ++c) {
                const double* const slope = slopes() + at(g) + c * step_;
                b[c] = -std::accumulate(slope, slope + n_, 0.0);
            }
            objective_.to_shift(g, b);
            std::fill_n(delta, length, 0.0);
            objective_.transposed(g, delta, b, rest() + at(g));  // - R' shift
            objective_.root(g, rest() + at(g), delta);
            double square = 0;
            for (std::size_t i = at(g); i < at(g) + length; ++i) {
                const double residual = -(slopes()[i] + ridge * coef()[i]);
                square += residual * residual;
                change()[i] = (residual + change()[i]) / ridge;
            }
            State& state = states_[g];
            state.goal = std::max(std::min(kForcing, std::sqrt(state.relative)) * std::sqrt(square),
                                  0.5 * work_.tol * state.reference);
            side = std::copy_n(delta, length, side);
        }
        multiply(groups.size() * objective_.width(), work_.tol >= kSingle);
        for (std::size_t p = 0; p < groups.size(); ++p)
            std::copy_n(sides() + p * length, length, moved() + at(groups[p]));
    }

    // Whether F does not fall along a step.
    bool rises(std::size_t g, double ridge) {
        double slope = 0;
        objective_.mean(g, moved() + at(g), constant());
        for (std::size_t c = 0; c < objective_.width(); ++c)
            for (std::size_t i = at(g) + c * step_; i < at(g) + c * step_ + n_; ++i)
                slope += (slopes()[i] + ridge * coef()[i]) * moved()[i] +
                         slopes()[i] * (shift()[output(g) + c] - constant()[c]);
        return !(slope < 0);
    }

    // Conjugate gradients for the rest of the step, for all groups at once; those for which a
    // factor takes less time have one.
    void iterate(const List& all, double ridge) {
        const std::size_t length = objective_.length();
        List groups, direct;
        std::vector<double> limits(groups_, kMostIterations);
        for (std::size_t g : all) {
            if (!objective_.joint()) {
                const auto rows =
                    static_cast<double>(factor_.choose(objective_.scale(g), n_, ridge, largest_));
                const double share = rows / static_cast<double>(n_);
                limits[g] = 2 + share * share * rows / kProducts;
            }
            (limits[g] <= kFewProducts || states_[g].direct ? direct : groups).push_back(g);
        }
        for (std::size_t g : groups) {
            objective_.mean(g, moved() + at(g), constant());
            objective_.transposed(g, moved() + at(g), constant(), rest() + at(g));
            for (std::size_t i = at(g); i < at(g) + length; ++i) rest()[i] = -rest()[i];
            states_[g].slope = 0;
        }
        for (int count = 0; !groups.empty(); ++count) {
            std::erase_if(groups, [&](std::size_t g) {
                objective_.root(g, rest() + at(g), sums());
                const bool done =
                    std::sqrt(dot(sums(), sums())) <= states_[g].goal && !rises(g, ridge);
                const bool late = !done && count >= limits[g];
                if (late) direct.push_back(g);
                return done || late;
            });
            for (std::size_t p = 0; p < groups.size(); ++p) turn(groups[p], count == 0, p);
            if (!groups.empty()) multiply(groups.size() * objective_.width(), work_.tol >= kSingle);
            for (std::size_t p = 0; p < groups.size(); ++p) move(groups[p], ridge, p);
        }
        for (std::size_t g : all) {
            objective_.mean(g, moved() + at(g), constant());
            for (std::size_t c = 0; c < objective_.width(); ++c)
                shift()[output(g) + c] -= constant()[c];
        }
        for (std::size_t g : direct) solve_directly(g, ridge);
    }
    void turn(std::size_t g, bool first, std::size_t place) {
        State& state = states_[g];
        double *const left = rest() + at(g), *const way = direction() + at(g);
        std::copy_n(left, objective_.length(), sums());
        objective_.centre(g, sums(), sides() + place * objective_.length());
        const double slope = dot(left, sums()), share = first ? 0.0 : slope / state.slope;
        for (std::size_t i = 0; i < objective_.length(); ++i)
            way[i] = sums()[i] + (first ? 0.0 : share * way[i]);
        state.slope = slope;
        objective_.root(g, way, sides() + place * objective_.length());
    }
    void move(std::size_t g, double ridge, std::size_t place) {
        const std::size_t length = objective_.length();
        const double* const product = sides() + place * length;
        double* const image = sums();
        objective_.mean(g, product, constant());
        objective_.transposed(g, product, constant(), image);
        const double* const way = direction() + at(g);
        for (std::size_t i = 0; i < length; ++i) image[i] += ridge * way[i];
        const double bend = dot(way, image);
        const double share = bend > 0 ? states_[g].slope / bend : 0.0;
        for (std::size_t i = 0; i < length; ++i) {
            moved()[at(g) + i] += share * product[i];
            rest()[at(g) + i] -= share * image[i];
        }
        objective_.root(g, way, image);
        for (std::size_t i = 0; i < length; ++i) change()[at(g) + i] += share * image[i];
    }

    // The rest of the step by a factor, refined while it is not small enough.
    void solve_directly(std::size_t g, double ridge) {
        State& state = states_[g];
        state.direct = true;
        if (state.failed = objective_.joint(); state.failed) return;
        const double* const scale = objective_.scale(g);
        double *const left = rest() + at(g), *const delta = change() + at(g);
        double *const product = moved() + at(g), last = kInfinite;
        factor_.choose(scale, n_, ridge, largest_);
        for (int round = 0; round <= kRounds; ++round) {
            double square = 0, sum = 0;
            for (std::size_t i = 0; i < n_; ++i) {
                const std::size_t j = at(g) + i;
                left[i] = -(slopes()[j] + ridge * (coef()[j] + delta[i])) -
                          scale[i] * scale[i] * (product[i] + shift()[g]);
                square += left[i] * left[i];
                sum -= coef()[j] + delta[i];
            }
            if (round && (square <= state.goal * state.goal || !(square < last / 4))) return;
            last = square;
            if (!factor_.make(matrix_.data())) {
                state.failed = true;
                return;
            }
            std::fill_n(sides(), step_, 0.0);
            factor_.solve(left, scale, work_.fit_intercept, sum, sides(), shift()[g]);
            for (std::size_t i = 0; i < n_; ++i) delta[i] += sides()[i];
            multiply(1);
            for (std::size_t i = 0; i < n_; ++i) product[i] += sides()[i];
        }
    }

    // Goes as far along a step as F falls enough, and looks.
    void advance(std::size_t g, double ridge) {
        State& state = states_[g];
        bool fell = false;
        const double length = length_of(g, ridge, fell);
        for (std::size_t i = at(g); i < at(g) + objective_.length(); ++i) {
            coef()[i] += length * change()[i];
            linear()[i] += length * moved()[i];
        }
        for (std::size_t c = output(g); c < output(g) + objective_.width(); ++c)
            intercept()[c] += length * shift()[c];
        look(g, ridge);
        const bool better = length > 0 && (fell || state.relative < state.least);
        state.least = std::min(state.least, state.relative);
        state.idle = better ? 0 : state.idle + 1;
        state.failed = !std::isfinite(state.relative) || !(length > 0) || state.idle >= kMostIdle;
    }

    double length_of(std::size_t g, double ridge, bool& fell) {
        const double *const a = coef() + at(g), *const product = moved() + at(g),
                            *const b = shift() + output(g);
        const double square = ridge * dot(a, linear() + at(g)), cross = ridge * dot(a, product);
        const double bend = ridge * dot(change() + at(g), product);
        return step_length(
            [&](double t) {
                auto sum = t == 0 ? objective_.outset(g, slopes() + at(g), product, b)
                                  : objective_.along(g, linear() + at(g), intercept() + output(g),
                                                     product, b, t);
                sum.value += square / 2 + t * (cross + t * bend / 2);
                sum.slope += cross + t * bend;
                sum.terms += std::abs(cross);
                return sum;
            },
            fell);
    }

    // The residual; infinite where float32 is too short for the kernel of such coefficients.
    double worst() {
        double most = 0;
        for (std::size_t g = 0; g < groups_; ++g)
            if (!(states_[g].relative <= most)) most = states_[g].relative;
        for (std::size_t c = 0; c < k_; ++c) {
            const double* const a = coef() + c * step_;
            const double spread = objective_.spread(c);
            const double noise = std::numeric_limits<float>::epsilon() * largest_ *
                                 std::sqrt(std::inner_product(a, a + n_, a, 0.0));
            if (spread > 0 && !(noise <= kRounding * spread)) return kInfinite;
        }
        return most;
    }

    const NewtonWork& work_;
    LeafObjective objective_;
    const std::size_t groups_;
    std::vector<State> states_;
};

inline void minimise_leaves(const NewtonWork& work, int n_threads) {
    solve_each<LeafNewton>(work, n_threads);
}

}  // namespace mercer
