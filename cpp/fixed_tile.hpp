// Numbers in [0, 1] as 16-bit fixed-point numbers and back. Included only by files compiled once
// per level.
#pragma once

#include "simd.hpp"

namespace mercer {
namespace {

// 16-bit whole numbers as float32, and back; the fraction is dropped.
MERCER_INLINE Vector<float> load_fixed(const std::uint16_t* p) {
#if defined(__GNUC__) && !defined(MERCER_PLAIN_VECTORS)
    typedef std::uint16_t Shorts __attribute__((vector_size(MERCER_VECTOR_BYTES / 2)));
    Shorts fixed;
    std::memcpy(&fixed, p, sizeof fixed);
    return __builtin_convertvector(__builtin_convertvector(fixed, Vector<std::int32_t>),
                                   Vector<float>);
#else
    Vector<float> v;
    for (float& lane : v.lane) lane = *p++;
    return v;
#endif
}
MERCER_INLINE void store_fixed(std::uint16_t* p, Vector<float> v) {
#if defined(__GNUC__) && !defined(MERCER_PLAIN_VECTORS)
    typedef std::uint16_t Shorts __attribute__((vector_size(MERCER_VECTOR_BYTES / 2)));
    const Shorts fixed =
        __builtin_convertvector(__builtin_convertvector(v, Vector<std::int32_t>), Shorts);
    std::memcpy(p, &fixed, sizeof fixed);
#else
    for (float lane : v.lane) *p++ = static_cast<std::uint16_t>(lane);
#endif
}

// `count` numbers in [0, 1] as fixed-point numbers, a multiple of the lanes.
void to_fixed(const float* numbers, std::size_t count, std::uint16_t* fixed) {
    for (std::size_t i = 0; i < count; i += lanes<float>) {
        const Vector<float> scaled = load(numbers + i) * broadcast(65535.0f) + broadcast(0.5f);
        store_fixed(fixed + i, larger(smaller(scaled, broadcast(65535.0f)), broadcast(0.0f)));
    }
}

// The same back, 65535 times what they stand for.
void from_fixed(const std::uint16_t* fixed, std::size_t count, float* numbers) {
    for (std::size_t i = 0; i < count; i += lanes<float>) store(numbers + i, load_fixed(fixed + i));
}

}  // namespace
}  // namespace mercer
