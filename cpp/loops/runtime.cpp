// The choice of an instruction-set level, and threads: what all parts of the core share, compiled
// once.
#include "isa.hpp"
#include "parallel.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#if defined(MERCER_X86_LEVELS)
#include <cpuid.h>
#endif

namespace mercer {

// ---- levels -------------------------------------------------------------------------------------

Cpu detect_cpu() {
    Cpu cpu;
#if defined(MERCER_X86_LEVELS)
    cpu.architecture = "x86_64";
    __builtin_cpu_init();
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool leaf1 = __get_cpuid(1, &a, &b, &c, &d) != 0;
    const bool movbe = leaf1 && (c >> 22 & 1), f16c = leaf1 && (c >> 29 & 1);
    const bool lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) && (c >> 5 & 1);
    auto note = [&](bool present, const char* name) {
        if (present) cpu.features.emplace_back(name);
        return present;
    };
    const bool v2 = note(__builtin_cpu_supports("sse4.2"), "sse4.2") &
                    note(__builtin_cpu_supports("popcnt"), "popcnt");
    const bool v3 =
        note(__builtin_cpu_supports("avx2"), "avx2") & note(__builtin_cpu_supports("fma"), "fma") &
        note(__builtin_cpu_supports("bmi"), "bmi") & note(__builtin_cpu_supports("bmi2"), "bmi2") &
        note(movbe, "movbe") & note(f16c, "f16c") & note(lzcnt, "lzcnt");
    const bool v4 = note(__builtin_cpu_supports("avx512f"), "avx512f") &
                    note(__builtin_cpu_supports("avx512bw"), "avx512bw") &
                    note(__builtin_cpu_supports("avx512cd"), "avx512cd") &
                    note(__builtin_cpu_supports("avx512dq"), "avx512dq") &
                    note(__builtin_cpu_supports("avx512vl"), "avx512vl");
    cpu.level = v2 && v3 && v4 ? 4 : v2 && v3 ? 3 : 2;
#elif defined(__aarch64__) || defined(_M_ARM64)
    cpu.architecture = "aarch64";
#elif defined(__x86_64__) || defined(_M_X64)
    cpu.architecture = "x86_64";
#else
    cpu.architecture = "unknown";
#endif
    return cpu;
}

std::vector<std::string> compiled_levels() {
#if defined(MERCER_X86_LEVELS)
    return {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
#else
    return {"baseline"};
#endif
}

namespace {

std::size_t wanted_level() {
    const auto levels = compiled_levels();
    const std::size_t best =
        levels.size() == 1 ? 0 : static_cast<std::size_t>(detect_cpu().level - 2);
    const char* wanted = std::getenv("MERCER_ISA");
    if (wanted == nullptr || *wanted == '\0') return best;
    std::string usable;
    for (std::size_t i = 0; i <= best; ++i) {
        if (levels[i] == wanted) return i;
        usable += (i ? ", " : "") + levels[i];
    }
    throw std::runtime_error("MERCER_ISA must be one of " + usable + " on this processor, got " +
                             wanted);
}

}  // namespace

std::size_t choose_level() {
    static const std::size_t level = wanted_level();
    return level;
}

// ---- threads ------------------------------------------------------------------------------------

namespace {

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

}  // namespace

void on_threads(int n_threads, FunctionRef<int> body) {
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

Team::Team(int n_threads) {
    others_.reserve(static_cast<std::size_t>(std::max(n_threads - 1, 0)));
    for (int thread = 1; thread < n_threads; ++thread) {
        try {
            others_.emplace_back([this, thread] {
                begun_.wait(false);
                if (work_) (*work_)(thread);
            });
        } catch (...) {  // no more threads, or no memory for one
            break;
        }
    }
}

Team::~Team() {
    begin();
    join();
}

void Team::run(FunctionRef<int> work) {
    FirstFailure failure;
    auto guarded = [&](int thread) { failure.guard([&] { work(thread); }); };
    const FunctionRef<int> everywhere(guarded);
    work_ = &everywhere;
    begin();
    guarded(0);
    join();
    failure.rethrow();
}

void Team::begin() {
    begun_ = true;
    begun_.notify_all();
}

void Team::join() {
    for (auto& other : others_) other.join();
    others_.clear();
}

void parallel_for(std::size_t n_items, int n_threads, FunctionRef<std::size_t, int> body) {
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
