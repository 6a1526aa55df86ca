// Which processor this is, and which of the separately compiled instruction-set levels to use.
#pragma once

#include "loops.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>
#if defined(MERCER_X86_LEVELS)
#include <cpuid.h>
#endif

namespace mercer {

struct Cpu {
    std::string architecture;
    std::vector<std::string> features;
    int level = 0;  // 2, 3 or 4 of x86-64; 0 where there is only one build
};

inline Cpu detect_cpu() {
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

inline std::vector<std::string> compiled_levels() {
#if defined(MERCER_X86_LEVELS)
    return {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
#else
    return {"baseline"};
#endif
}

inline std::size_t wanted_level() {
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

// The index into compiled_levels() to use; the environment variable MERCER_ISA may lower it when
// this is called first.
inline std::size_t choose_level() {
    static const std::size_t level = wanted_level();
    return level;
}

#if defined(MERCER_X86_LEVELS)
extern const ExactLoops exact_loops_v2, exact_loops_v3, exact_loops_v4;
extern const DenseLoops dense_loops_v2, dense_loops_v3, dense_loops_v4;
inline const ExactLoops* const exact_tables[] = {&exact_loops_v2, &exact_loops_v3, &exact_loops_v4};
inline const DenseLoops* const dense_tables[] = {&dense_loops_v2, &dense_loops_v3, &dense_loops_v4};
#else
extern const ExactLoops exact_loops_baseline;
extern const DenseLoops dense_loops_baseline;
inline const ExactLoops* const exact_tables[] = {&exact_loops_baseline};
inline const DenseLoops* const dense_tables[] = {&dense_loops_baseline};
#endif

inline const ExactLoops& exact_loops() {
    static const ExactLoops& chosen = *exact_tables[choose_level()];
    return chosen;
}
inline const DenseLoops& dense_loops() {
    static const DenseLoops& chosen = *dense_tables[choose_level()];
    return chosen;
}

template <class T>
const CosineLoops<T>& cosine_loops() {
    if constexpr (sizeof(T) == 4)
        return dense_loops().f32;
    else
        return dense_loops().f64;
}

template <class T>
const GramLoops<T>& gram_loops() {
    if constexpr (sizeof(T) == 4)
        return dense_loops().gram_f32;
    else
        return dense_loops().gram_f64;
}

template <class T>
const BinningLoops<T>& binning_loops() {
    if constexpr (sizeof(T) == 4)
        return exact_loops().f32;
    else
        return exact_loops().f64;
}

template <class Code>
const CodeLoops<Code>& code_loops() {
    return exact_loops().coded.of<Code>();
}

}  // namespace mercer
