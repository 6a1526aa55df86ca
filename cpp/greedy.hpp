// Greedy coordinate descent for dual kernel machines, without waiting: every thread owns a part of
// the variables and moves, again and again, the one of them that a projected step along its slope
// would move furthest. The sums Kb are shared; what a move adds to them is one kernel row.
//
// Yang You, Xiangru Lian, Ji Liu, Hsiang-Fu Yu, Inderjit Dhillon, James Demmel and Cho-Jui
// Hsieh, Asynchronous parallel greedy coordinate descent, NIPS 2016.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "dual.hpp"
#include "kernel_rows.hpp"
#include "parallel.hpp"

namespace mercer {

// ---- sums that several threads add to -----------------------------------------------------------

// For a single thread.
template <class Row>
class PlainSums {
  public:
    explicit PlainSums(const Dual& dual, std::size_t) : dual_(dual) {}
    void add(const Row* row, double step, std::size_t first, std::size_t count) {
        loops_.add(row, step, dual_.sums + first, count);
    }
    Best add_and_find(const Row* row, double step, std::size_t first, std::size_t count) {
        return loops_.add_and_find(row, step, dual_.rows(first), dual_.sums + first, count);
    }
    void scores(std::size_t first, std::size_t count, double* out) {
        loops_.scores(dual_.rows(first), dual_.sums + first, count, out);
    }
    double sum(std::size_t i) { return dual_.sums[i]; }
    void finish() {}

  protected:
    const Dual& dual_;
    const DualLoops<Row>& loops_ = dual_loops<Row>();
};

// Whole vectors at a time, in blocks of which one thread at a time holds each: no sum is lost, and
// the loops are those of one thread.
template <class Row>
class BlockedSums : public PlainSums<Row> {
  public:
    BlockedSums(const Dual& dual, std::size_t n)
        : PlainSums<Row>(dual, n), locks_(new Lock[n / kBlock + 1]) {}
    void add(const Row* row, double step, std::size_t first, std::size_t count) {
        for_blocks(first, count, [&](std::size_t from, std::size_t size) {
            PlainSums<Row>::add(row + (from - first), step, from, size);
        });
    }
    Best add_and_find(const Row* row, double step, std::size_t first, std::size_t count) {
        Best best{-std::numeric_limits<double>::infinity(), count};
        for_blocks(first, count, [&](std::size_t from, std::size_t size) {
            const Best found = PlainSums<Row>::add_and_find(row ? row + (from - first) : nullptr,
                                                            step, from, size);
            if (found.score > best.score) best = {found.score, from - first + found.at};
        });
        return best;
    }
    void scores(std::size_t first, std::size_t count, double* out) {
        for_blocks(first, count, [&](std::size_t from, std::size_t size) {
            PlainSums<Row>::scores(from, size, out + (from - first));
        });
    }
    double sum(std::size_t i) {
        double value = 0.0;
        for_blocks(i, 1, [&](std::size_t from, std::size_t) { value = this->dual_.sums[from]; });
        return value;
    }

  private:
    static constexpr std::size_t kBlock = 4096;
    struct alignas(64) Lock {
        std::atomic_flag taken;
    };
    template <class F>
    void for_blocks(std::size_t first, std::size_t count, F f) {
        for (std::size_t from = first; from < first + count;) {
            const std::size_t to = std::min((from / kBlock + 1) * kBlock, first + count);
            std::atomic_flag& taken = locks_[from / kBlock].taken;
            for (int spins = 0; taken.test_and_set(std::memory_order_acquire);)
                if (++spins > 1000) std::this_thread::yield();
            f(from, to - from);
            taken.clear(std::memory_order_release);
            from = to;
        }
    }
    std::unique_ptr<Lock[]> locks_;
};

// Number by number, as in the paper.
template <class Row>
class AtomicSums {
  public:
    AtomicSums(const Dual& dual, std::size_t n) : dual_(dual), sums_(n) {
        for (std::size_t i = 0; i < n; ++i)
            sums_[i].store(dual.sums[i], std::memory_order_relaxed);
    }
    void add(const Row* row, double step, std::size_t first, std::size_t count) {
        for (std::size_t k = 0; k < count; ++k) {
            std::atomic<double>& sum = sums_[first + k];
            const double change = step * static_cast<double>(row[k]);
            double before = sum.load(std::memory_order_relaxed);
            while (!sum.compare_exchange_weak(before, before + change, std::memory_order_relaxed)) {
            }
        }
    }
    Best add_and_find(const Row* row, double step, std::size_t first, std::size_t count) {
        if (row) add(row, step, first, count);
        double values[kPiece];
        Best best{-std::numeric_limits<double>::infinity(), count};
        for (std::size_t from = 0; from < count; from += kPiece) {
            const std::size_t size = std::min(kPiece, count - from);
            load(first + from, size, values);
            const Best found =
                loops_.add_and_find(nullptr, 0.0, dual_.rows(first + from), values, size);
            if (found.score > best.score) best = {found.score, from + found.at};
        }
        return best;
    }
    void scores(std::size_t first, std::size_t count, double* out) {
        std::vector<double> values(count);
        load(first, count, values.data());
        loops_.scores(dual_.rows(first), values.data(), count, out);
    }
    double sum(std::size_t i) { return sums_[i].load(std::memory_order_relaxed); }
    void finish() { load(0, sums_.size(), dual_.sums); }

  private:
    static constexpr std::size_t kPiece = 256;
    void load(std::size_t first, std::size_t count, double* out) const {
        for (std::size_t k = 0; k < count; ++k)
            out[k] = sums_[first + k].load(std::memory_order_relaxed);
    }
    const Dual& dual_;
    const DualLoops<Row>& loops_ = dual_loops<Row>();
    std::vector<std::atomic<double>> sums_;
};

// ---- descent ------------------------------------------------------------------------------------

template <class Row>
class GreedyDescent {
  public:
    // Part t of the rows, starts[t] .. starts[t + 1] - 1, is thread t's, with its share of `bytes`
    // for kernel rows.
    GreedyDescent(const RowSource<Row>& source, std::vector<std::size_t> starts, std::size_t bytes)
        : source_(source), starts_(std::move(starts)) {
        for (std::size_t t = 0; t < n_threads(); ++t)
            if (!source.n() || !source.held(0))
                caches_.push_back(std::make_unique<RowCache<Row>>(source.n(), source.n(),
                                                                  bytes / n_threads(), 1));
    }
    std::size_t n() const { return source_.n(); }
    std::size_t n_threads() const { return starts_.size() - 1; }

    // Until no thread finds a score above `target`, or after `max_updates` moves. `one_by_one`
    // says how several threads add to the sums.
    Ran run(const Dual& dual, double target, std::size_t max_updates, bool one_by_one) {
        if (n_threads() == 1) return run_on(PlainSums<Row>(dual, n()), dual, target, max_updates);
        if (one_by_one)
            return run_on(AtomicSums<Row>(dual, n()), dual, target, max_updates);
        return run_on(BlockedSums<Row>(dual, n()), dual, target, max_updates);
    }

  private:
    struct Shared {
        double target;
        std::size_t max_updates;
        std::atomic<std::size_t> n_updates{0}, n_rows{0}, n_idle{0};
        std::atomic<bool> stop{false};
    };

    template <class Sums>
    Ran run_on(Sums sums, const Dual& dual, double target, std::size_t max_updates) {
        Shared shared;
        shared.target = target;
        shared.max_updates = max_updates;
        if (max_updates == 0) return {0, 0, 0.0};
        std::vector<double> scores(n_threads());
        on_threads(static_cast<int>(n_threads()), [&](int thread) {
            const auto t = static_cast<std::size_t>(thread);
            try {
                scores[t] = descend(t, sums, dual, shared);
            } catch (...) {
                shared.stop = true;
                throw;
            }
        });
        sums.finish();
        return {std::min<std::size_t>(shared.n_updates, max_updates), shared.n_rows,
                *std::max_element(scores.begin(), scores.end())};
    }

    // What one thread does; returns its last score.
    template <class Sums>
    double descend(std::size_t t, Sums& sums, const Dual& dual, Shared& shared) {
        const std::size_t first = starts_[t], count = starts_[t + 1] - first;
        bool idle = false;
        Best best = sums.add_and_find(nullptr, 0.0, first, count);
        while (!shared.stop) {
            if (!(best.score > shared.target)) {
                // Others may yet move what this thread's slopes depend on.
                if (!idle && shared.n_idle.fetch_add(1) + 1 == n_threads()) shared.stop = true;
                idle = true;
                std::this_thread::yield();
                best = sums.add_and_find(nullptr, 0.0, first, count);
                continue;
            }
            if (idle) shared.n_idle.fetch_sub(1);
            idle = false;
            if (shared.n_updates.fetch_add(1) >= shared.max_updates) {
                shared.stop = true;
                break;
            }
            const std::size_t i = first + best.at;
            const Row* row = row_of(t, i, sums, shared);
            const double step = step_along(dual, i, sums.sum(i));
            dual.b[i] += step;
            best = sums.add_and_find(row + first, step, first, count);
            sums.add(row + first + count, step, first + count, n() - first - count);
            sums.add(row, step, 0, first);
        }
        return std::max(best.score, 0.0);
    }

    // The change of b_i that minimises the objective along it.
    static double step_along(const Dual& dual, std::size_t i, double sum) {
        const double b = dual.b[i], slope = sum + dual.extra[i] * b + dual.linear[i];
        const double along = std::max(dual.curvature[i], kLeastCurvature);
        return std::clamp(b - slope / along, dual.lower[i], dual.upper[i]) - b;
    }

    // Row i, made if need be along with others that are likely to be wanted soon: those not held
    // whose scores are largest.
    template <class Sums>
    const Row* row_of(std::size_t t, std::size_t i, Sums& sums, Shared& shared) {
        if (const Row* held = source_.held(i)) return held;
        RowCache<Row>& cache = *caches_[t];
        if (const Row* found = cache.find(i)) return found;
        const std::size_t first = starts_[t], count = starts_[t + 1] - first;
        std::vector<std::size_t> rows{i};
        const std::size_t wanted = std::min(source_.at_once(), cache.capacity());
        if (wanted > 1) {
            std::vector<double> scores(count);
            sums.scores(first, count, scores.data());
            const double least = std::max(shared.target, kLikely * scores[i - first]);
            std::vector<std::pair<double, std::size_t>> others;
            for (std::size_t k = 0; k < count; ++k)
                if (scores[k] > least && first + k != i && !cache.holds(first + k))
                    others.emplace_back(-scores[k], first + k);
            const auto taken = static_cast<std::ptrdiff_t>(std::min(wanted - 1, others.size()));
            std::partial_sort(others.begin(), others.begin() + taken, others.end());
            for (std::ptrdiff_t k = 0; k < taken; ++k)
                rows.push_back(others[static_cast<std::size_t>(k)].second);
        }
        std::vector<Row*> out(rows.size());
        for (std::size_t r = rows.size(); r-- > 0;) out[r] = cache.take(rows[r]);  // i the last
        try {
            source_.fill(rows.data(), rows.size(), 0, n(), out.data());
        } catch (...) {
            for (std::size_t row : rows) cache.forget(row);
            throw;
        }
        shared.n_rows += rows.size();
        return out[0];
    }

    static constexpr double kLikely = 0.5;  // of the best score: to be wanted soon
    const RowSource<Row>& source_;
    std::vector<std::size_t> starts_;
    std::vector<std::unique_ptr<RowCache<Row>>> caches_;
};

}  // namespace mercer
