// How the keys of one grid are computed over a chunk of rows: which inputs stay in one bin, which
// cross a few edges, which cross many.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "cells.hpp"
#include "isa.hpp"
#include "points.hpp"
#include "rounded.hpp"

namespace mercer {

inline double code_of(double x, double inverse_width, double shift) {
    double v = x * inverse_width - shift;
    v = v > -0x1p31 ? v : -0x1p31;
    v = v < 0x1p31 - 1.0 ? v : 0x1p31 - 1.0;
    return std::floor(v);
}

// Floating-point numbers in increasing order as integers.
template <class T>
std::uint64_t to_rank(T x) {
    using Rank = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Rank sign = Rank(1) << (8 * sizeof(T) - 1);
    const auto bits = std::bit_cast<Rank>(x);
    return bits & sign ? Rank(~bits) : bits | sign;
}
template <class T>
T from_rank(std::uint64_t rank) {
    using Rank = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Rank sign = Rank(1) << (8 * sizeof(T) - 1);
    const auto bits = static_cast<Rank>(rank);
    return std::bit_cast<T>(bits & sign ? Rank(bits ^ sign) : Rank(~bits));
}

// The smallest number in (low, high] whose code is at least `code`, given that low's is below and
// high's is not. Starts from the real solution, a step or two away as a rule, and brackets.
template <class T>
T smallest_with_code(double code, double inverse_width, double shift, T low, T high) {
    auto reaches = [&](std::uint64_t rank) {
        return code_of(static_cast<double>(from_rank<T>(rank)), inverse_width, shift) >= code;
    };
    std::uint64_t below = to_rank(low), reached = to_rank(high);
    const double guess = (code + shift) / inverse_width;
    if (guess > static_cast<double>(low) && guess < static_cast<double>(high)) {
        const std::uint64_t start = to_rank(static_cast<T>(guess));
        const bool down = reaches(start);
        (down ? reached : below) = start;
        for (std::uint64_t step = 1; reached - below > step; step *= 2) {
            const std::uint64_t at = down ? start - step : start + step;
            if (at <= below || at >= reached) break;
            const bool hit = reaches(at);
            (hit ? reached : below) = at;
            if (hit != down) break;
        }
    }
    while (reached - below > 1) {
        const std::uint64_t middle = below + (reached - below) / 2;
        (reaches(middle) ? reached : below) = middle;
    }
    return from_rank<T>(reached);
}

template <class T>
struct Plan {
    std::vector<Edge<float>> edges;
    std::vector<Edge<T>> close;  // edges of float64 that need comparing in it: see TileGrid
    std::vector<Ramp> ramps;
    std::uint64_t base = 0;  // the key of a sample that crosses nothing
    Cells cells;             // if there are any, multipliers are strides, and keys are cells
};

// Room for the codes of the smallest and the largest value of each input.
struct PlanScratch {
    explicit PlanScratch(std::size_t d) : low(d), high(d) {}
    std::vector<std::int32_t> low, high;
};

constexpr std::int64_t kMaxEdges = 6;  // beyond these it is cheaper to compute a code than to count

// `held` are the numbers of the chunk; cells are planned where `most_cells` suffice.
template <class T>
void make_plan(Plan<T>& plan, const Grids& grids, std::size_t g, const double* low,
               const double* high, const RoundedNumbers<T>& held, std::size_t most_cells,
               PlanScratch& scratch) {
    HashRow* const hash_row = exact_loops().hash_row;
    const double* inverse_widths = grids.inverse_widths + g * grids.d;
    const double* shifts = grids.shifts + g * grids.d;
    const std::uint64_t* multipliers = grids.multipliers + g * grids.d;
    plan.edges.clear();
    plan.close.clear();
    plan.ramps.clear();
    plan.base = hash_row(low, inverse_widths, shifts, multipliers, grids.d, scratch.low.data());
    hash_row(high, inverse_widths, shifts, multipliers, grids.d, scratch.high.data());
    plan.cells.lay_out(scratch.low.data(), scratch.high.data(), multipliers, grids.d, plan.base,
                       most_cells);
    if (plan.cells.count()) {
        multipliers = plan.cells.strides();
        plan.base = 0;
    }
    for (std::size_t j = 0; j < grids.d; ++j) {
        const std::int64_t first = scratch.low[j], crossed = scratch.high[j] - first;
        if (crossed == 0) continue;
        const auto input = static_cast<std::uint32_t>(j);
        if (crossed > kMaxEdges || crossed < 0) {
            plan.ramps.push_back({inverse_widths[j], shifts[j], multipliers[j], input, -1.0f});
            const auto minus_first = 0u - static_cast<std::uint32_t>(scratch.low[j]);
            plan.base = add_packed(plan.base, multiply_packed(minus_first, multipliers[j]));
            continue;
        }
        T below = static_cast<T>(low[j]);
        for (std::int64_t code = first + 1; code <= first + crossed; ++code) {
            const T threshold = smallest_with_code(static_cast<double>(code), inverse_widths[j],
                                                   shifts[j], below, static_cast<T>(high[j]));
            const auto rounded = static_cast<float>(threshold);
            if (held.may_be(j, rounded))
                plan.close.push_back({threshold, input, multipliers[j]});
            else
                plan.edges.push_back({rounded, input, multipliers[j]});
        }
    }
}

// The edges that cut one tile, and `base` with the multipliers of those below its whole range:
// these are crossed by every sample.
template <class T, class E>
std::uint64_t select_edges(const std::vector<Edge<E>>& edges, const T* low, const T* high,
                           std::uint64_t base, std::vector<Edge<E>>& selected) {
    selected.resize(edges.size());
    std::size_t count = 0;
    for (const Edge<E>& edge : edges) {
        const bool passed = edge.threshold <= static_cast<E>(low[edge.input]);
        selected[count] = edge;
        count += !passed && edge.threshold <= static_cast<E>(high[edge.input]);
        base = add_packed(base, passed ? edge.multiplier : 0);
    }
    selected.resize(count);
    return base;
}

// Half less the error of float32 in x * inverse_width - shift - 1/2 for x between low and high; -1
// if that is not known to be small. Counted in units of 2^-24, x, the inverse width and their
// product are off by |x| * inverse_width, the shift by |shift| + 1/2, the difference by both; what
// is more leaves room for the rounding in float64.
inline float float32_margin(const Ramp& ramp, double low, double high) {
    const double most = std::max(std::abs(low), std::abs(high)) * ramp.inverse_width;
    const double error = (1.25 * most + std::abs(ramp.shift) + 1) * 0x1p-22;
    const bool ordinary = ramp.inverse_width > 0x1p-100 && ramp.inverse_width < 0x1p100;
    return ordinary && error < 0.1 ? static_cast<float>(0.5 - error) : -1.0f;
}

// The part of a plan that one tile needs.
template <class T>
struct TilePlan {
    void select(const Plan<T>& plan, const T* low, const T* high) {
        base = select_edges(plan.edges, low, high, plan.base, edges);
        base = select_edges(plan.close, low, high, base, close);
        ramps = plan.ramps;
        for (Ramp& ramp : ramps)
            ramp.margin = float32_margin(ramp, static_cast<double>(low[ramp.input]),
                                         static_cast<double>(high[ramp.input]));
    }

    std::vector<Edge<float>> edges;
    std::vector<Edge<T>> close;
    std::vector<Ramp> ramps;
    std::uint64_t base = 0;
};

}  // namespace mercer
