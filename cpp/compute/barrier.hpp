// Threads that wait for each other by spinning: rounds take microseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace mercer {

class Barrier {
  public:
    explicit Barrier(int n_threads) : n_(n_threads) {}

    void wait() {
        if (n_ == 1) return;
        const unsigned round = round_.load(std::memory_order_acquire);
        if (waiting_.fetch_add(1, std::memory_order_acq_rel) == n_ - 1) {
            waiting_.store(0, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; spins < 4000; ++spins)
            if (round_.load(std::memory_order_acquire) != round) return;
        const auto began = std::chrono::steady_clock::now();
        while (round_.load(std::memory_order_acquire) == round) std::this_thread::yield();
        if (std::chrono::steady_clock::now() - began > std::chrono::milliseconds(1))
            late_.fetch_add(1, std::memory_order_relaxed);
    }

    // How often a thread has waited so long that another one cannot have had a core.
    unsigned late() const { return late_.load(std::memory_order_relaxed); }

  private:
    int n_;
    std::atomic<int> waiting_{0};
    std::atomic<unsigned> round_{0}, late_{0};
};

}  // namespace mercer
