// Sums Kb that one thread owns, or that several add to without waiting for each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "dual.hpp"

namespace mercer {

// The sums of a single thread.
class OwnSums {
  public:
    explicit OwnSums(const Dual& dual) : sums_(dual.sums) {}
    void add(std::size_t first, const double* changes, std::size_t count) {
        for (std::size_t k = 0; k < count; ++k) sums_[first + k] += changes[k];
    }
    // The sums from `first` on; `room` may be used for them.
    const double* load(std::size_t first, std::size_t, double*) const { return sums_ + first; }
    void finish(double*) const {}

  private:
    double* sums_;
};

// Sums that all threads add to and read at any time, number by number.
class AtomicSums {
  public:
    AtomicSums(const Dual& dual, std::size_t n) : sums_(n) {
        for (std::size_t i = 0; i < n; ++i) sums_[i].store(dual.sums[i], std::memory_order_relaxed);
    }
    void add(std::size_t first, const double* changes, std::size_t count) {
        for (std::size_t k = 0; k < count; ++k) {
            std::atomic<double>& sum = sums_[first + k];
            double before = sum.load(std::memory_order_relaxed);
            while (!sum.compare_exchange_weak(before, before + changes[k],
                                              std::memory_order_relaxed)) {
            }
        }
    }
    const double* load(std::size_t first, std::size_t count, double* room) const {
        for (std::size_t k = 0; k < count; ++k)
            room[k] = sums_[first + k].load(std::memory_order_relaxed);
        return room;
    }
    void finish(double* sums) const { load(0, sums_.size(), sums); }

  private:
    std::vector<std::atomic<double>> sums_;
};

// The same in blocks, each of which one thread at a time has for the moment that its loops take:
// an addition of vectors instead of one that is atomic for every number.
class BlockedSums {
  public:
    static constexpr std::size_t kBlock = 1024;

    BlockedSums(const Dual& dual, std::size_t n)
        : sums_(dual.sums), locks_(new Lock[n / kBlock + 1]) {}
    // `count` is at most kBlock.
    void add(std::size_t first, const double* changes, std::size_t count) {
        for_blocks(first, count, [&](std::size_t from, std::size_t size) {
            for (std::size_t k = 0; k < size; ++k) sums_[from + k] += changes[from - first + k];
        });
    }
    const double* load(std::size_t first, std::size_t count, double* room) const {
        for_blocks(first, count, [&](std::size_t from, std::size_t size) {
            std::copy_n(sums_ + from, size, room + (from - first));
        });
        return room;
    }
    void finish(double*) const {}

  private:
    struct alignas(64) Lock {
        std::atomic_flag taken;
    };
    template <class F>
    void for_blocks(std::size_t first, std::size_t count, F f) const {
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
    double* sums_;
    std::unique_ptr<Lock[]> locks_;
};

}  // namespace mercer
