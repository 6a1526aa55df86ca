// A parallel loop on std::thread: work is handed out item by item, the first exception wins and is
// rethrown in the caller. Threads live for one call only, which is safe after fork. Defined in
// runtime.cpp, once for all loops.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace mercer {

// Refers to a function that outlives the call it is given to: loops that take one are compiled
// once, not for every function.
template <class... Arguments>
class FunctionRef {
  public:
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
    FunctionRef(F&& f)
        : of_(std::addressof(f)), call_([](const void* of, Arguments... arguments) {
              (*static_cast<std::remove_reference_t<F>*>(const_cast<void*>(of)))(arguments...);
          }) {}
    void operator()(Arguments... arguments) const { call_(of_, arguments...); }

  private:
    const void* of_;
    void (*call_)(const void*, Arguments...);
};

// Calls body(thread) once on each of n_threads threads, the caller's among them.
void on_threads(int n_threads, FunctionRef<int> body);

// Threads that run at the same time, for work in which they wait for each other: how many there are
// is known before it begins, for a system may have no more of them. Work must not throw while
// another thread waits for it.
class Team {
  public:
    explicit Team(int n_threads);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team();

    int size() const { return 1 + static_cast<int>(others_.size()); }

    // Calls work(thread) once on each of size() threads, the caller's among them. The first
    // exception is rethrown when all have ended.
    void run(FunctionRef<int> work);

  private:
    void begin();
    void join();
    const FunctionRef<int>* work_ = nullptr;
    std::atomic<bool> begun_{false};
    std::vector<std::thread> others_;
};

// Calls body(item, thread) for each item in [0, n_items); `thread` is below n_threads.
void parallel_for(std::size_t n_items, int n_threads, FunctionRef<std::size_t, int> body);

}  // namespace mercer
