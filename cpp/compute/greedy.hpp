// Greedy coordinate descent for dual kernel machines, without waiting: every thread owns a part of
// the variables and moves, again and again, those of them that a projected step along their slopes
// would move furthest. The sums Kb are shared; what a move adds to them are kernel rows, by atomic
// additions.
//
// Yang You, Xiangru Lian, Ji Liu, Hsiang-Fu Yu, Inderjit Dhillon, James Demmel and Cho-Jui Hsieh,
// Asynchronous parallel greedy coordinate descent, NIPS 2016, move one variable at a time.
// Moving several means to minimise over them, by the same rule on their own small kernel matrix,
// before anything of length n is touched.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "dual.hpp"
#include "kernel_rows.hpp"
#include "parallel.hpp"
#include "shared_sums.hpp"

namespace mercer {

// Kernel rows, each with the change of its variable.
template <class Row>
struct Moves {
    std::vector<const Row*> rows;
    std::vector<double> steps;
};

template <class Row>
class GreedyDescent {
  public:
    // Part t of the rows, starts[t] .. starts[t + 1] - 1, is thread t's, with its share of `bytes`
    // for kernel rows: those of the `block` variables that move at once at least.
    GreedyDescent(const RowSource<Row>& source, std::vector<std::size_t> starts, std::size_t bytes,
                  std::size_t block)
        : source_(source), starts_(std::move(starts)), block_(std::max<std::size_t>(block, 1)) {
        for (std::size_t t = 0; t < n_threads(); ++t)
            if (!source.n() || !source.held(0))
                caches_.push_back(std::make_unique<RowCache<Row>>(source.n(), source.n(),
                                                                  bytes / n_threads(), block_));
    }
    std::size_t n() const { return source_.n(); }
    std::size_t n_threads() const { return starts_.size() - 1; }

    // Until no thread finds a score above `target`, or after about `max_updates` moves.
    Ran run(const Dual& dual, double target, std::size_t max_updates) {
        if (max_updates == 0) return {0, 0, 0.0};
        if (n_threads() == 1) return run_on(OwnSums(dual), dual, target, max_updates);
        if (block_ == 1) return run_on(AtomicSums(dual, n()), dual, target, max_updates);
        return run_on(BlockedSums(dual, n()), dual, target, max_updates);
    }

  private:
    static constexpr std::size_t kPiece =
        BlockedSums::kBlock;               // columns that are worked on together
    static constexpr double kWorth = 0.1;  // of the best score: to be moved along with it
    static constexpr double kInner = 0.1;  // of it again: how well a block is minimised

    struct Shared {
        double target;
        std::size_t max_updates, n_threads;
        std::atomic<std::size_t> n_updates{0}, n_rows{0}, n_idle{0};
        std::atomic<bool> stop{false};
    };

    template <class Sums>
    Ran run_on(Sums sums, const Dual& dual, double target, std::size_t max_updates) {
        // They wait for each other; where the system has fewer, each has several parts.
        Team team(static_cast<int>(n_threads()));
        Shared shared;
        shared.target = target;
        shared.max_updates = max_updates;
        shared.n_threads = static_cast<std::size_t>(team.size());
        std::vector<double> scores(shared.n_threads);
        team.run([&](int thread) {
            const auto t = static_cast<std::size_t>(thread);
            try {
                scores[t] = descend(t, sums, dual, shared);
            } catch (...) {
                shared.stop = true;
                throw;
            }
        });
        sums.finish(dual.sums);
        return {shared.n_updates, shared.n_rows, *std::max_element(scores.begin(), scores.end())};
    }

    // What one thread does; returns its last score.
    template <class Sums>
    double descend(std::size_t t, Sums& sums, const Dual& dual, Shared& shared) {
        const std::size_t first = starts_[n_threads() * t / shared.n_threads];
        const std::size_t last = starts_[n_threads() * (t + 1) / shared.n_threads];
        std::vector<double> wanted(last - first);  // moves
        bool idle = false;
        double best = look(sums, dual, first, last, wanted);
        while (!shared.stop) {
            if (!(best > shared.target)) {
                // Others may yet move what this thread's slopes depend on.
                if (!idle && shared.n_idle.fetch_add(1) + 1 == shared.n_threads) shared.stop = true;
                idle = true;
                std::this_thread::sleep_for(std::chrono::microseconds(20));
                best = look(sums, dual, first, last, wanted);
                continue;
            }
            if (idle) shared.n_idle.fetch_sub(1);
            idle = false;
            if (shared.n_updates >= shared.max_updates) {
                shared.stop = true;
                break;
            }
            const std::vector<std::size_t> chosen = choose(wanted, first, best, shared.target);
            Moves<Row> moves = minimise(t, chosen, sums, dual, best, shared);
            shared.n_updates += moves.rows.size();
            if (moves.rows.empty()) {  // steps are too small for the numbers they are added to
                best = 0.0;
                continue;
            }
            apply(sums, moves, first, last);
            best = look(sums, dual, first, last, wanted);
            apply(sums, moves, last, n());
            apply(sums, moves, 0, first);
        }
        return best;
    }

    // How some rows would move, and the largest score.
    template <class Sums>
    double look(const Sums& sums, const Dual& dual, std::size_t first, std::size_t last,
                std::vector<double>& wanted) const {
        double room[kPiece], best = 0.0;
        for (std::size_t from = first; from < last; from += kPiece) {
            const std::size_t count = std::min(kPiece, last - from);
            best = std::max(best, loops_.moves(dual.rows(from), sums.load(from, count, room), count,
                                               wanted.data() + (from - first)));
        }
        return best;
    }

    // The rows of the largest scores, that of the best first: one alone, or as many that want to
    // grow as that want to shrink where there are; those of one direction get in each other's way.
    std::vector<std::size_t> choose(const std::vector<double>& wanted, std::size_t first,
                                    double best, double target) const {
        if (block_ == 1) {
            const auto is_best = [&](double move) { return std::abs(move) == best; };
            const auto found = std::find_if(wanted.begin(), wanted.end(), is_best);
            return {first + static_cast<std::size_t>(found - wanted.begin())};
        }
        std::vector<std::pair<double, std::size_t>> chosen, grow, shrink;
        const double least = std::max(target, kWorth * best);
        for (std::size_t k = 0; k < wanted.size(); ++k)
            if (std::abs(wanted[k]) >= least)
                (wanted[k] > 0.0 ? grow : shrink).emplace_back(-std::abs(wanted[k]), first + k);
        if (grow.size() > shrink.size()) std::swap(grow, shrink);
        const auto take = [&](auto& some, std::size_t room) {
            const auto end =
                some.begin() + static_cast<std::ptrdiff_t>(std::min(some.size(), room));
            std::partial_sort(some.begin(), end, some.end());
            chosen.insert(chosen.end(), some.begin(), end);
        };
        take(grow, block_ / 2);
        take(shrink, block_ - chosen.size());
        std::sort(chosen.begin(), chosen.end());
        std::vector<std::size_t> rows(chosen.size());
        for (std::size_t k = 0; k < rows.size(); ++k) rows[k] = chosen[k].second;
        return rows;
    }

    // Moves the chosen variables to about the minimum over them.
    template <class Sums>
    Moves<Row> minimise(std::size_t t, const std::vector<std::size_t>& chosen, const Sums& sums,
                        const Dual& dual, double best, Shared& shared) {
        const std::size_t m = chosen.size();
        const std::vector<const Row*> rows = rows_of(t, chosen, shared);
        std::vector<double> K(m * m), own(m), b(m), linear(m), lower(m), upper(m), extra(m),
            scores(m);
        for (std::size_t p = 0; p < m; ++p) {
            const std::size_t i = chosen[p];
            for (std::size_t q = 0; q < m; ++q)
                K[p * m + q] = static_cast<double>(rows[p][chosen[q]]);
            own[p] = *sums.load(i, 1, &own[p]);
            b[p] = dual.b[i];
            linear[p] = dual.linear[i];
            lower[p] = dual.lower[i];
            upper[p] = dual.upper[i];
            extra[p] = dual.extra[i];
        }
        const BoxRows box{linear.data(), lower.data(), upper.data(), extra.data(), b.data()};
        const double enough = m == 1 ? 0.0 : std::max(0.5 * shared.target, kInner * kWorth * best);
        const DualLoops<double>& loops = dual_loops<double>();
        std::size_t p = 0;
        for (std::size_t round = 0; round < (m == 1 ? 1 : 50 * m); ++round) {
            const double along = std::max(dual.curvature[chosen[p]], kLeastCurvature);
            const double slope = own[p] + extra[p] * b[p] + linear[p];
            const double to = std::clamp(b[p] - slope / along, lower[p], upper[p]);
            const double step = to - b[p];
            b[p] = to;
            const Best next = loops.add_and_find(K.data() + p * m, step, box, own.data(), m);
            if (!(next.score > enough)) break;
            p = next.at;
        }
        Moves<Row> moves;
        for (std::size_t q = 0; q < m; ++q) {
            const double step = b[q] - dual.b[chosen[q]];
            if (step == 0.0) continue;
            dual.b[chosen[q]] = b[q];
            moves.rows.push_back(rows[q]);
            moves.steps.push_back(step);
        }
        return moves;
    }

    // What the moves add to the sums of some rows.
    template <class Sums>
    void apply(Sums& sums, const Moves<Row>& moves, std::size_t first, std::size_t last) const {
        double changes[kPiece];
        for (std::size_t from = first; from < last; from += kPiece) {
            const std::size_t count = std::min(kPiece, last - from);
            loops_.combine(moves.rows.data(), moves.steps.data(), moves.rows.size(), from, count,
                           changes);
            sums.add(from, changes, count);
        }
    }

    // Kernel rows; those that are not held are made, as many together as is quick.
    std::vector<const Row*> rows_of(std::size_t t, const std::vector<std::size_t>& wanted,
                                    Shared& shared) {
        std::vector<const Row*> rows(wanted.size());
        std::vector<std::size_t> missing, names;
        for (std::size_t k = 0; k < wanted.size(); ++k) {
            rows[k] = source_.held(wanted[k]);
            if (!rows[k]) rows[k] = caches_[t]->find(wanted[k]);
            if (!rows[k]) missing.push_back(k);
        }
        const std::size_t together = source_.at_once();
        std::vector<Row*> out;
        for (std::size_t from = 0; from < missing.size(); from += together) {
            const std::size_t to = std::min(from + together, missing.size());
            names.clear();
            out.clear();
            for (std::size_t k = from; k < to; ++k) {
                names.push_back(wanted[missing[k]]);
                out.push_back(caches_[t]->take(names.back()));
                rows[missing[k]] = out.back();
            }
            try {
                source_.fill(names.data(), names.size(), 0, n(), out.data());
            } catch (...) {
                for (std::size_t name : names) caches_[t]->forget(name);
                throw;
            }
        }
        shared.n_rows += missing.size();
        return rows;
    }

    const RowSource<Row>& source_;
    std::vector<std::size_t> starts_;
    std::size_t block_;
    std::vector<std::unique_ptr<RowCache<Row>>> caches_;
    const DualLoops<Row>& loops_ = dual_loops<Row>();
};

}  // namespace mercer
