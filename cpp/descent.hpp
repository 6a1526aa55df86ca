// Coordinate descent on a quadratic model with an elastic net: descent_loops.hpp says of what.
//
// Columns come in groups whose members share no row (all bins of a grid; any single column). A
// group is minimised at once, which is exact. Threads own ranges of rows: each adds up its part of
// the slopes of a group, all learn the sums at one barrier, and each moves its own rows. So results
// depend on the number of threads by rounding alone, and nothing is written by two threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "barrier.hpp"
#include "descent_loops.hpp"
#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const DescentLoops descent_loops_v2, descent_loops_v3, descent_loops_v4;
inline const DescentLoops* const descent_tables[] = {&descent_loops_v2, &descent_loops_v3,
                                                     &descent_loops_v4};
#else
extern const DescentLoops descent_loops_baseline;
inline const DescentLoops* const descent_tables[] = {&descent_loops_baseline};
#endif

inline const DescentLoops& descent_loops() {
    static const DescentLoops& chosen = *descent_tables[choose_level()];
    return chosen;
}
template <class T>
const ColumnLoops<T>& column_loops() {
    if constexpr (sizeof(T) == 4)
        return descent_loops().f32;
    else
        return descent_loops().f64;
}
template <class Code>
const GridLoops<Code>& grid_loops() {
    if constexpr (sizeof(Code) == 1)
        return descent_loops().u8;
    else if constexpr (sizeof(Code) == 2)
        return descent_loops().u16;
    else
        return descent_loops().u32;
}

// p variables, each with its own thresholds.
struct Net {
    const double* l1;         // (p)
    const double* l2;         // (p)
    const double* curvature;  // (p): (1/n) sum h z^2, without l2
    double* w;                // (p)
};

// The minimiser of the model along variable k, given the gradient of its smooth part without l2.
inline double step_along(const Net& net, std::size_t k, double gradient) {
    const double diagonal = net.curvature[k] + net.l2[k];
    if (!(diagonal > 0.0)) return 0.0;
    const double target = net.curvature[k] * net.w[k] - gradient;
    const double shrunk =
        std::copysign(std::max(std::abs(target) - net.l1[k], 0.0), target) / diagonal;
    return shrunk - net.w[k];
}

// Where the rows of thread t begin.
inline std::size_t first_row(std::size_t n, int t, int n_threads) {
    return n * static_cast<std::size_t>(t) / static_cast<std::size_t>(n_threads);
}

inline bool is_crowded(const Barrier& barrier, std::size_t rounds, std::size_t sweep) {
    return barrier.late() > (sweep + 1) * (3 + rounds / 50);
}

// Sparse columns: those of variable k name rows[starts[k] .. starts[k + 1]), ascending.
template <class T>
struct SparseColumns {
    const std::int64_t* starts;
    const std::uint32_t* rows;
    const T* values;  // null: all are 1
    double scale;     // of every value
    std::size_t n, p;
};

struct Sweeps {
    std::size_t count;  // at most so many
    double tol;         // stop after a sweep that moves no variable by more, times its curvature
};
struct Swept {
    std::size_t count;
    double largest;
    bool crowded = false;  // ended early: threads lost more time by waiting than they gained
};

// Goes on with one thread where others have no cores of their own.
template <class Descend>
Swept uncrowded(Sweeps sweeps, int n_threads, Descend descend) {
    const Swept swept = descend(sweeps, n_threads);
    if (!swept.crowded || swept.count >= sweeps.count) return swept;
    const Swept rest = descend({sweeps.count - swept.count, sweeps.tol}, 1);
    return {swept.count + rest.count, rest.largest};
}

// Where the rows of every thread begin within column k.
template <class T>
void cut_column(const SparseColumns<T>& Z, std::size_t k, std::size_t threads, std::int64_t* cuts) {
    const auto* first = Z.rows + Z.starts[k];
    const auto* last = Z.rows + Z.starts[k + 1];
    for (std::size_t c = 0; c <= threads; ++c) {
        const auto row = first_row(Z.n, static_cast<int>(c), static_cast<int>(threads));
        cuts[k * (threads + 1) + c] =
            c == threads ? Z.starts[k + 1] : std::lower_bound(first, last, row) - Z.rows;
    }
}

// Columns that are moved together: those at positions groups[g] .. groups[g + 1) of `order`, or of
// all columns one after the other where that is null. Columns of a group should share no row: then
// moving them at once is exact; else their curvatures have to be large enough for it.
struct Groups {
    const std::int64_t* bounds;
    std::size_t count;
    const std::int64_t* order;

    std::size_t operator()(std::size_t position) const {
        return order ? static_cast<std::size_t>(order[position]) : position;
    }
};

template <class T>
Swept descend_columns(const SparseColumns<T>& Z, const Groups& groups, const Net& net,
                      const double* row_curvature, double* slope, Sweeps sweeps, int n_threads) {
    const ColumnLoops<T>& loops = column_loops<T>();
    std::size_t widest = 0, n_entries = static_cast<std::size_t>(Z.starts[Z.p] - Z.starts[0]);
    for (std::size_t g = 0; g < groups.count; ++g)
        widest =
            std::max(widest, static_cast<std::size_t>(groups.bounds[g + 1] - groups.bounds[g]));
    // A barrier costs what a few hundred entries cost.
    if (groups.count == 0 || n_entries / groups.count < 2000) n_threads = 1;
    Team team(n_threads);
    const auto threads = static_cast<std::size_t>(team.size());
    std::vector<double> partial(2 * threads * widest), steps(threads * widest);
    std::vector<double> weights(threads * Z.p);  // every thread keeps its own: one barrier a group
    std::vector<std::int64_t> cuts(threads == 1 ? 0 : Z.p * (threads + 1));
    Barrier barrier(static_cast<int>(threads));
    Swept swept{0, 0.0};
    const double per_row = Z.scale / static_cast<double>(Z.n);
    team.run([&](int thread) {
        const auto t = static_cast<std::size_t>(thread);
        const auto range = [&](std::size_t k) {
            if (threads == 1) return std::pair{Z.starts[k], Z.starts[k + 1]};
            return std::pair{cuts[k * (threads + 1) + t], cuts[k * (threads + 1) + t + 1]};
        };
        if (threads > 1) {
            for (std::size_t k = t; k < Z.p; k += threads) cut_column(Z, k, threads, cuts.data());
            barrier.wait();
        }
        double* mine = steps.data() + t * widest;
        double* w = weights.data() + t * Z.p;
        Net own_net = net;
        own_net.w = w;
        std::copy(net.w, net.w + Z.p, w);
        std::size_t parity = 0;
        for (std::size_t sweep = 0; sweep < sweeps.count; ++sweep) {
            double largest = 0.0;
            for (std::size_t g = 0; g < groups.count; ++g) {
                const auto first = static_cast<std::size_t>(groups.bounds[g]);
                const auto width = static_cast<std::size_t>(groups.bounds[g + 1]) - first;
                double* sums = partial.data() + parity * threads * widest;
                parity ^= 1;
                for (std::size_t k = 0; k < width; ++k) {
                    const auto [from, to] = range(groups(first + k));
                    sums[t * widest + k] =
                        loops.sparse_slope(Z.rows + from, Z.values ? Z.values + from : nullptr,
                                           slope, static_cast<std::size_t>(to - from));
                }
                barrier.wait();
                for (std::size_t k = 0; k < width; ++k) {
                    const std::size_t column = groups(first + k);
                    double sum = 0.0;
                    for (std::size_t c = 0; c < threads; ++c) sum += sums[c * widest + k];
                    mine[k] = step_along(own_net, column, sum * per_row);
                    largest = std::max(largest, std::abs(mine[k]) *
                                                    (net.curvature[column] + net.l2[column]));
                }
                for (std::size_t k = 0; k < width; ++k) {
                    if (mine[k] == 0.0) continue;
                    const std::size_t column = groups(first + k);
                    const auto [from, to] = range(column);
                    loops.sparse_move(Z.rows + from, Z.values ? Z.values + from : nullptr,
                                      row_curvature, mine[k] * Z.scale, slope,
                                      static_cast<std::size_t>(to - from));
                    w[column] += mine[k];
                }
            }
            if (t == 0) swept = {sweep + 1, largest, is_crowded(barrier, groups.count, sweep)};
            if (largest <= sweeps.tol) break;  // the same on every thread
            barrier.wait();
            if (swept.crowded) break;
        }
    });
    std::copy(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(Z.p), net.w);
    return swept;
}

// All bins of every grid. Codes (R, n), bins starts[r] .. starts[r + 1] of grid r.
template <class Code>
struct BinnedGrids {
    const Code* codes;
    const std::int64_t* starts;
    double scale;
    std::size_t n_grids, n;
};

template <class Code>
Swept descend_grids(const BinnedGrids<Code>& Z, const Net& net, const double* row_curvature,
                    double* slope, Sweeps sweeps, int n_threads) {
    const GridLoops<Code>& loops = grid_loops<Code>();
    std::size_t widest = 0;
    for (std::size_t r = 0; r < Z.n_grids; ++r)
        widest = std::max(widest, static_cast<std::size_t>(Z.starts[r + 1] - Z.starts[r]));
    Team team(Z.n < 4000 ? 1 : n_threads);
    const auto threads = static_cast<std::size_t>(team.size());
    const auto size = static_cast<std::size_t>(Z.starts[Z.n_grids]);
    std::vector<double> tables(2 * threads * 2 * widest), steps(threads * widest);
    std::vector<double> weights(threads * size);  // every thread keeps its own, as above
    Barrier barrier(static_cast<int>(threads));
    Swept swept{0, 0.0};
    const double per_row = Z.scale / static_cast<double>(Z.n);
    team.run([&](int thread) {
        const auto t = static_cast<std::size_t>(thread);
        const std::size_t from = first_row(Z.n, thread, static_cast<int>(threads));
        const std::size_t rows = first_row(Z.n, thread + 1, static_cast<int>(threads)) - from;
        double* mine = steps.data() + t * widest;
        double* w = weights.data() + t * size;
        Net own_net = net;
        own_net.w = w;
        std::copy(net.w, net.w + size, w);
        std::size_t parity = 0;
        for (std::size_t sweep = 0; sweep < sweeps.count; ++sweep) {
            double largest = 0.0;
            for (std::size_t r = 0; r < Z.n_grids; ++r) {
                const auto first = static_cast<std::size_t>(Z.starts[r]);
                const auto width = static_cast<std::size_t>(Z.starts[r + 1]) - first;
                const Code* codes = Z.codes + r * Z.n + from;
                double* all = tables.data() + parity * threads * 2 * widest;
                parity ^= 1;
                double* own = all + t * 2 * widest;
                std::fill(own, own + 2 * widest, 0.0);
                loops.slopes(codes, slope + from, rows, own, own + widest);
                barrier.wait();
                bool moves = false;
                for (std::size_t k = 0; k < width; ++k) {
                    double sum = 0.0;
                    for (std::size_t c = 0; c < 2 * threads; ++c) sum += all[c * widest + k];
                    const double step = step_along(own_net, first + k, sum * per_row);
                    moves |= step != 0.0;
                    largest = std::max(largest, std::abs(step) *
                                                    (net.curvature[first + k] + net.l2[first + k]));
                    mine[k] = step;
                }
                if (!moves) continue;
                for (std::size_t k = 0; k < width; ++k) {
                    w[first + k] += mine[k];
                    mine[k] *= Z.scale;
                }
                loops.move(codes, row_curvature ? row_curvature + from : nullptr, mine,
                           slope + from, rows);
            }
            if (t == 0) swept = {sweep + 1, largest, is_crowded(barrier, Z.n_grids, sweep)};
            if (largest <= sweeps.tol) break;
            barrier.wait();
            if (swept.crowded) break;
        }
    });
    std::copy(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(size), net.w);
    return swept;
}

}  // namespace mercer
