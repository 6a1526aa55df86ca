// Coordinate descent on a quadratic model with an elastic net: descent_loops.hpp says of what.
//
// Columns come in groups whose members share no row (bins of a grid; any single column). A
// group is minimised at once, which is exact. Threads own ranges of rows: each adds up its part of
// the slopes of a group, all learn the sums at one barrier, and each moves its own rows. So results
// depend on the number of threads by rounding alone, and nothing is written by two threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
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

// The sum of column k weighted by v (n), and out (n) += w times column k.
template <class T>
double column_sum(const SparseColumns<T>& Z, std::size_t k, const double* v) {
    const std::int64_t from = Z.starts[k];
    return Z.scale *
           column_loops<T>().sparse_slope(Z.rows + from, Z.values ? Z.values + from : nullptr, v,
                                          static_cast<std::size_t>(Z.starts[k + 1] - from));
}
template <class T>
void add_column(const SparseColumns<T>& Z, std::size_t k, double w, double* out) {
    const std::int64_t from = Z.starts[k];
    column_loops<T>().sparse_move(Z.rows + from, Z.values ? Z.values + from : nullptr, nullptr,
                                  w * Z.scale, out,
                                  static_cast<std::size_t>(Z.starts[k + 1] - from));
}

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

    std::size_t first(std::size_t g) const { return static_cast<std::size_t>(bounds[g]); }
    std::size_t widest() const {
        std::size_t most = 0;
        for (std::size_t g = 0; g < count; ++g) most = std::max(most, first(g + 1) - first(g));
        return most;
    }
    std::size_t operator()(std::size_t position) const {
        return order ? static_cast<std::size_t>(order[position]) : position;
    }
};

// Columns first .. first + width of the order that groups are of.
struct Group {
    std::size_t number, first, width;
};

// The sweeps of descent. Of a matrix Z, `sum` writes what a thread's rows add to the slopes of the
// columns of a group, and `move` takes steps along them in w and in its slopes; `prepare` says
// whether other threads have to wait for what this one prepares.
template <class Matrix>
Swept descend(Matrix Z, const Groups& groups, const Net& net, std::size_t p,
              const double* row_curvature, double* slope, Sweeps sweeps, Team& team) {
    const auto threads = static_cast<std::size_t>(team.size());
    const std::size_t widest = groups.widest();
    std::vector<double> partial(2 * threads * widest), steps(threads * widest);
    std::vector<double> weights(threads * p);  // every thread keeps its own: one barrier a group
    Barrier barrier(static_cast<int>(threads));
    Swept swept{0, 0.0};
    const double per_row = Z.scale / static_cast<double>(Z.n);
    team.run([&](int thread) {
        const auto t = static_cast<std::size_t>(thread);
        if (Z.prepare(t)) barrier.wait();
        double* mine = steps.data() + t * widest;
        double* w = weights.data() + t * p;
        Net own_net = net;
        own_net.w = w;
        std::copy(net.w, net.w + p, w);
        std::size_t parity = 0;
        for (std::size_t sweep = 0; sweep < sweeps.count; ++sweep) {
            double largest = 0.0;
            for (std::size_t g = 0; g < groups.count; ++g) {
                const Group group{g, groups.first(g), groups.first(g + 1) - groups.first(g)};
                double* all = partial.data() + parity * threads * widest;
                parity ^= 1;
                Z.sum(group, t, slope, all + t * widest);
                barrier.wait();
                bool moves = false;
                for (std::size_t k = 0; k < group.width; ++k) {
                    const std::size_t column = Z.column(group.first + k);
                    double sum = 0.0;
                    for (std::size_t c = 0; c < threads; ++c) sum += all[c * widest + k];
                    const double step = step_along(own_net, column, sum * per_row);
                    moves |= step != 0.0;
                    largest = std::max(largest,
                                       std::abs(step) * (net.curvature[column] + net.l2[column]));
                    mine[k] = step;
                }
                if (moves) Z.move(group, t, mine, w, row_curvature, slope);
            }
            if (t == 0) swept = {sweep + 1, largest, is_crowded(barrier, groups.count, sweep)};
            if (largest <= sweeps.tol) break;  // the same on every thread
            barrier.wait();
            if (swept.crowded) break;
        }
    });
    std::copy(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(p), net.w);
    return swept;
}

// Sparse columns, each cut into the rows of every thread.
template <class T>
struct CutColumns : SparseColumns<T> {
    const Groups& groups;
    std::size_t threads;
    const ColumnLoops<T>& loops = column_loops<T>();
    std::vector<std::int64_t> cuts =
        std::vector<std::int64_t>(threads > 1 ? this->p * (threads + 1) : 0);
    const std::int64_t* ends = threads > 1 ? cuts.data() : this->starts;
    std::size_t stride = threads > 1 ? threads + 1 : 1;

    bool prepare(std::size_t t) {
        for (std::size_t k = t; threads > 1 && k < this->p; k += threads)
            cut_column(*this, k, threads, cuts.data());
        return threads > 1;
    }
    std::size_t column(std::size_t position) const { return groups(position); }
    void sum(Group group, std::size_t t, const double* slope, double* sums) const {
        for (std::size_t k = 0; k < group.width; ++k) {
            const std::int64_t* end = ends + groups(group.first + k) * stride + t;
            sums[k] = loops.sparse_slope(this->rows + end[0],
                                         this->values ? this->values + end[0] : nullptr, slope,
                                         static_cast<std::size_t>(end[1] - end[0]));
        }
    }
    void move(Group group, std::size_t t, const double* steps, double* w,
              const double* row_curvature, double* slope) const {
        for (std::size_t k = 0; k < group.width; ++k) {
            if (steps[k] == 0.0) continue;
            const std::size_t column = groups(group.first + k);
            const std::int64_t* end = ends + column * stride + t;
            loops.sparse_move(this->rows + end[0], this->values ? this->values + end[0] : nullptr,
                              row_curvature, steps[k] * this->scale, slope,
                              static_cast<std::size_t>(end[1] - end[0]));
            w[column] += steps[k];
        }
    }
};

template <class T>
Swept descend_columns(const SparseColumns<T>& Z, const Groups& groups, const Net& net,
                      const double* row_curvature, double* slope, Sweeps sweeps, int n_threads) {
    const auto n_entries = static_cast<std::size_t>(Z.starts[Z.p] - Z.starts[0]);
    // A barrier costs what a few hundred entries cost.
    if (groups.count == 0 || n_entries / groups.count < 2000) n_threads = 1;
    Team team(n_threads);
    return descend(CutColumns<T>{Z, groups, static_cast<std::size_t>(team.size())}, groups, net,
                   Z.p, row_curvature, slope, sweeps, team);
}

}  // namespace mercer
