// A parallel loop on std::thread: work is handed out item by item, the first exception wins and is
// rethrown in the caller. Threads live for one call only, which is safe after fork.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace mercer {

// Calls body(thread) once on each of n_threads threads, the caller's among them.
template <class Body>
void on_threads(int n_threads, Body body) {
    std::exception_ptr failure;
    std::atomic_flag failed;
    auto guarded = [&](int thread) {
        try {
            body(thread);
        } catch (...) {
            if (!failed.test_and_set()) failure = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    others.reserve(static_cast<std::size_t>(std::max(n_threads - 1, 0)));
    for (int thread = 1; thread < n_threads; ++thread) {
        try {
            others.emplace_back(guarded, thread);
        } catch (const std::system_error&) {
            guarded(thread);  // no more threads to be had: do this share here
        }
    }
    guarded(0);
    for (auto& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

// Threads that run at the same time, for work in which they wait for each other: how many there are
// is known before it begins, for a system may have no more of them. The work must not throw.
class Team {
  public:
    explicit Team(int n_threads) {
        others_.reserve(static_cast<std::size_t>(std::max(n_threads - 1, 0)));
        for (int thread = 1; thread < n_threads; ++thread) {
            try {
                others_.emplace_back([this, thread] {
                    begun_.wait(false);
                    if (work_) work_(thread);
                });
            } catch (const std::system_error&) {
                break;
            }
        }
    }
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team() {
        begin();
        join();
    }

    int size() const { return 1 + static_cast<int>(others_.size()); }

    // Calls work(thread) once on each of size() threads, the caller's among them.
    template <class Work>
    void run(Work work) {
        work_ = std::ref(work);
        begin();
        work(0);
        join();
    }

  private:
    void begin() {
        begun_ = true;
        begun_.notify_all();
    }
    void join() {
        for (auto& other : others_) other.join();
        others_.clear();
    }
    std::function<void(int)> work_;
    std::atomic<bool> begun_{false};
    std::vector<std::thread> others_;
};

// Calls body(item, thread) for each item in [0, n_items); `thread` is below n_threads.
template <class Body>
void parallel_for(std::size_t n_items, int n_threads, Body body) {
    const auto useful = static_cast<int>(
        std::min<std::size_t>(n_items, static_cast<std::size_t>(std::max(n_threads, 1))));
    std::atomic<std::size_t> next{0};
    on_threads(useful, [&](int thread) {
        try {
            for (std::size_t item; (item = next.fetch_add(1)) < n_items;) body(item, thread);
        } catch (...) {
            next = n_items;  // the others stop early
            throw;
        }
    });
}

}  // namespace mercer
