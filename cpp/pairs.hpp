// Descent along pairs of variables for dual kernel machines whose variables add up to a constant,
// which an intercept asks for. The pair is the one of Fan, Chen and Lin, Working set selection
// using second order information, JMLR 2005. All threads work on every pair together: each owns a
// range of rows, makes that range of the kernel columns, looks for the best variables there and
// moves the sums there, so that two meetings a pair are all they need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <vector>

#include "descent.hpp"
#include "dual.hpp"
#include "kernel_rows.hpp"

namespace mercer {

template <class Row>
class PairDescent {
  public:
    PairDescent(const RowSource<Row>& source, int n_threads, std::size_t bytes)
        : source_(source), n_(source.n()),
          n_threads_(std::max<std::size_t>(
              1, std::min<std::size_t>(static_cast<std::size_t>(n_threads), n_ / kLeastRows))) {
        for (std::size_t t = 0; t < n_threads_; ++t)
            if (!n_ || !source.held(0))
                caches_.push_back(
                    std::make_unique<RowCache<Row>>(n_, last(t) - first(t), bytes / n_threads_, 2));
    }
    std::size_t n() const { return n_; }

    // Until no pair violates the conditions of optimality by more than `tol`, or after
    // `max_updates` pairs. `fold` is how many variables a row has.
    Ran run(const Dual& dual, std::size_t fold, double tol, std::size_t max_updates) {
        // All threads meet; where the system has fewer than parts, each works for several.
        Team team(static_cast<int>(n_threads_));
        const auto threads = static_cast<std::size_t>(team.size());
        std::vector<Choice> firsts(n_threads_), seconds(n_threads_);
        std::vector<Worker> workers;
        for (std::size_t t = 0; t < n_threads_; ++t) workers.push_back({*this, dual, fold, t});
        Barrier barrier(static_cast<int>(threads));
        Ran ran{0, 0, 0.0};
        const auto fails = [](const Choice& choice) { return choice.failed; };
        team.run([&](int thread) {
            const auto for_each_part = [&](auto f) {
                for (auto t = static_cast<std::size_t>(thread); t < n_threads_; t += threads)
                    f(workers[t], t);
            };
            for (std::size_t n_updates = 0;; ++n_updates) {
                for_each_part(
                    [&](Worker& worker, std::size_t t) { firsts[t] = worker.choose_first(); });
                barrier.wait();
                // A copy: others write their next choice before everybody has moved.
                const Choice i = best_of(firsts);
                double steepest = -std::numeric_limits<double>::infinity();
                for (const Choice& choice : firsts) steepest = std::max(steepest, choice.steepest);
                const double violation = std::max(steepest - i.slope, 0.0);
                if (thread == 0) ran = {n_updates, workers[0].n_rows, violation};
                if (!(violation > tol) || n_updates == max_updates) break;
                if (std::any_of(firsts.begin(), firsts.end(), fails)) break;
                for_each_part(
                    [&](Worker& worker, std::size_t t) { seconds[t] = worker.choose_second(i); });
                barrier.wait();
                if (std::any_of(seconds.begin(), seconds.end(), fails)) break;
                const Choice j = best_of(seconds);
                for_each_part([&](Worker& worker, std::size_t) { worker.move(i, j); });
            }
        });
        for (const Worker& worker : workers)
            if (worker.failure) std::rethrow_exception(worker.failure);
        return ran;
    }

  private:
    static constexpr std::size_t kLeastRows = 256;  // of a thread: a meeting costs what they do

    struct alignas(64) Choice {
        double score, slope, room, curvature, steepest;
        std::size_t variable;
        bool failed;  // a kernel row could not be made
    };
    static const Choice& best_of(const std::vector<Choice>& choices) {
        return *std::max_element(choices.begin(), choices.end(),
                                 [](const auto& a, const auto& b) { return a.score < b.score; });
    }
    std::size_t first(std::size_t t) const { return n_ * t / n_threads_; }
    std::size_t last(std::size_t t) const { return first(t + 1); }

    // One part of the rows.
    struct alignas(64) Worker {
        const PairDescent& all;
        const Dual& dual;
        std::size_t fold, t, n_rows = 0;
        std::exception_ptr failure = nullptr;
        const Row* row = nullptr;  // of the first variable
        const DualLoops<Row>& loops = dual_loops<Row>();

        std::size_t first() const { return all.first(t); }
        std::size_t count() const { return all.last(t) - first(); }

        Choice choose_first() const {
            constexpr double infinity = std::numeric_limits<double>::infinity();
            Choice choice{-infinity, infinity, 0, 0, -infinity, 0, failure != nullptr};
            for (std::size_t f = 0; f < fold; ++f) {
                const std::size_t from = f * all.n_ + first();
                double steepest;
                const Best best =
                    loops.find_first(dual.rows(from), dual.sums + first(), count(), &steepest);
                choice.steepest = std::max(choice.steepest, steepest);
                if (!(best.score > choice.score)) continue;
                const std::size_t v = from + best.at;
                choice = {best.score,        -best.score,     dual.upper[v] - dual.b[v],
                          dual.curvature[v], choice.steepest, v,
                          choice.failed};
            }
            return choice;
        }

        Choice choose_second(const Choice& i) {
            row = fetch(i.variable);
            Choice choice{-std::numeric_limits<double>::infinity(), 0, 0, 0, 0, i.variable, !row};
            if (!row) return choice;
            for (std::size_t f = 0; f < fold; ++f) {
                const std::size_t from = f * all.n_ + first();
                const Best best =
                    loops.find_second(row, i.slope, i.curvature, dual.curvature + from,
                                      dual.rows(from), dual.sums + first(), count());
                if (!(best.score > choice.score)) continue;
                const std::size_t v = from + best.at, r = first() + best.at;
                const double along =
                    i.curvature + dual.curvature[v] - 2.0 * static_cast<double>(row[best.at]);
                choice = {best.score,
                          dual.sums[r] + dual.extra[v] * dual.b[v] + dual.linear[v],
                          dual.b[v] - dual.lower[v],
                          std::max(along, kLeastCurvature),
                          0,
                          v,
                          false};
            }
            return choice;
        }

        // The variables move first: whatever happens then, they still add up to what they did.
        void move(const Choice& i, const Choice& j) {
            const double step =
                std::min((j.slope - i.slope) / j.curvature, std::min(i.room, j.room));
            double* b = dual.b;
            if (owns(i.variable))
                b[i.variable] = step == i.room ? dual.upper[i.variable] : b[i.variable] + step;
            if (owns(j.variable))
                b[j.variable] = step == j.room ? dual.lower[j.variable] : b[j.variable] - step;
            if (const Row* other = fetch(j.variable))
                loops.add_difference(row, other, step, dual.sums + first(), count());
        }

        bool owns(std::size_t v) const {
            return v % all.n_ >= first() && v % all.n_ < first() + count();
        }

        // The own part of the row of a variable; null after a failure.
        const Row* fetch(std::size_t v) {
            const std::size_t r = v % all.n_;
            if (const Row* held = all.source_.held(r)) return held + first();
            RowCache<Row>& cache = *all.caches_[t];
            if (const Row* found = cache.find(r)) return found;
            Row* out = cache.take(r);
            try {
                all.source_.fill(&r, 1, first(), all.last(t), &out);
            } catch (...) {
                cache.forget(r);
                failure = std::current_exception();
                return nullptr;
            }
            ++n_rows;
            return out;
        }
    };

    const RowSource<Row>& source_;
    std::size_t n_, n_threads_;
    std::vector<std::unique_ptr<RowCache<Row>>> caches_;
};

}  // namespace mercer
