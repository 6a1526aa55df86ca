// A parallel loop on std::thread: work is handed out item by item, the first exception wins and is
// rethrown in the caller. Threads live for one call only, which is safe after fork.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
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
