// Which processor this is, and which of the separately compiled instruction-set levels to use:
// runtime.cpp finds out.
#pragma once

#include "loops.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace mercer {

struct Cpu {
    std::string architecture;
    std::vector<std::string> features;
    int level = 0;  // 2, 3 or 4 of x86-64; 0 where there is only one build
};

Cpu detect_cpu();

std::vector<std::string> compiled_levels();

// The index into compiled_levels() to use; the environment variable MERCER_ISA may lower it when
// this is called first.
std::size_t choose_level();

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
auto distance_sum_loop() {
    if constexpr (sizeof(T) == sizeof(float))
        return dense_loops().distance_sum_f32;
    else
        return dense_loops().distance_sum_f64;
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
// Those of codes of so many bytes.
inline const SumLoops& sum_loops(std::size_t code_bytes) {
    switch (code_bytes) {
    case 1: return exact_loops().coded.u8.sums;
    case 2: return exact_loops().coded.u16.sums;
    default: return exact_loops().coded.u32.sums;
    }
}

}  // namespace mercer
