// A parallel loop on std::thread: work is handed out item by item, the first exception wins and is
// rethrown in the caller. Threads live for one call only, which is safe after fork.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace mercer {

// Of what several threads throw, the first.
class FirstFailure {
  public:
    template <class F>
    void guard(F f) {
        try {
            f();
        } catch (...) {
            if (!failed_.test_and_set()) failure_ = std::current_exception();
        }
    }
    void rethrow() const {
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    std::exception_ptr failure_;
    std::atomic_flag failed_;
};

// Calls body(thread) once on each of n_threads threads, the caller's among them.
template <class Body>
void on_threads(int n_threads, Body body) {
    FirstFailure failure;
    auto guarded = [&](int thread) { failure.guard([&] { body(thread); }); };
    std::vector<std::thread> others;
    others.reserve(static_cast<std::size_t>(std::max(n_threads - 1, 0)));
    for (int thread = 1; thread < n_threads; ++thread) {
        try {
            others.emplace_back(guarded, thread);
        } catch (...) {
            guarded(thread);  // no more threads, or no memory for one: do this share here
        }
    }
    guarded(0);
    for (auto& other : others) other.join();
    failure.rethrow();
}

// Threads that run at the same time, for work in which they wait for each other: how many there are
// is known before it begins, for a system may have no more of them. Work must not throw while
// another thread waits for it.
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
            } catch (...) {  // no more threads, or no memory for one
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

    // Calls work(thread) once on each of size() threads, the caller's among them. The first
    // exception is rethrown when all have ended.
    template <class Work>
    void run(Work work) {
        FirstFailure failure;
        auto guarded = [&](int thread) { failure.guard([&] { work(thread); }); };
        work_ = std::ref(guarded);
        begin();
        guarded(0);
        join();
        failure.rethrow();
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
