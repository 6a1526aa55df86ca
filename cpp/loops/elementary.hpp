// exp and log of vectors. Included only by files compiled once per instruction-set level.
#pragma once

#include "simd.hpp"

namespace mercer {
namespace {

// exp(-x) = 2^-k exp(-r), x = k log(2) + r, |r| <= log(2) / 2, and exp(-r) = 1 - r + r^2 P(r).
// `log2_high` has so few bits that k * log2_high is exact; P is minimax for the relative error
// (3e-9 in float32, 4e-18 in float64).
template <class T>
struct Decay;

template <>
struct Decay<float> {
    using Bits = std::uint32_t;
    static constexpr int mantissa = 23;
    static constexpr float last = 87.0f;  // below exp(-last) the result is 0
    static constexpr float to_integer =
        0x1.8p23f;  // adding it rounds, the integer in the last bits
    static constexpr float log2_high = 0x1.63p-1f, log2_low = -0x1.bd0106p-13f;
    static constexpr float P[] = {1.3814611739972356721e-3f, -8.3687105283907951755e-3f,
                                  4.1668387430925101737e-2f, -1.6666520684036086576e-1f,
                                  4.9999993451310557667e-1f};
};

template <>
struct Decay<double> {
    using Bits = std::uint64_t;
    static constexpr int mantissa = 52;
    static constexpr double last = 708.0;
    static constexpr double to_integer = 0x1.8p52;
    static constexpr double log2_high = 0x1.62e42feep-1, log2_low = 0x1.a39ef35793c76p-33;
    static constexpr double P[] = {-2.5000068656251264725e-8, 2.763023539221684444e-7,
                                   -2.7557586284908991428e-6, 2.4801493132382893365e-5,
                                   -1.9841269506751355361e-4, 1.388888894360100954e-3,
                                   -8.3333333334943493889e-3, 4.1666666666530255003e-2,
                                   -1.6666666666666412746e-1, 5.0000000000000106178e-1};
};

template <class T, std::size_t n>
MERCER_INLINE Vector<T> polynomial(const T (&coefficients)[n], Vector<T> x) {
    Vector<T> sum = broadcast(coefficients[0]);
    for (std::size_t i = 1; i < n; ++i) sum = sum * x + broadcast(coefficients[i]);
    return sum;
}

// exp(-x) for x >= -last
template <class T>
MERCER_INLINE Vector<T> decay(Vector<T> x) {
    using Table = Decay<T>;
    using Bits = Vector<typename Table::Bits>;
    const Bits seen = at_least<Bits>(broadcast(Table::last), x);
    x = smaller(x, broadcast(Table::last));
    const Vector<T> magic = broadcast(Table::to_integer);
    const Vector<T> shifted = magic - x * broadcast(T(1.44269504088896340736));
    const Vector<T> k = shifted - magic;  // of the other sign
    Vector<T> r = x + k * broadcast(Table::log2_high);
    r = r + k * broadcast(Table::log2_low);
    const Vector<T> value = polynomial(Table::P, r) * (r * r) + (broadcast(T(1)) - r);
    const Bits scaled = reinterpret<Bits>(value) + (reinterpret<Bits>(shifted) << Table::mantissa);
    return reinterpret<Vector<T>>(scaled & seen);
}

// log(1 + x) for x >= 0: 1 + x = 2^k m with m between sqrt(1/2) and sqrt(2), and log(m) is the odd
// series of (m - 1) / (m + 1), which is at most 0.172. What 1 + x loses by rounding is put back.
MERCER_INLINE Vector<double> log_one_plus(Vector<double> x) {
    static constexpr double series[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                        1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
    using Bits = Vector<std::uint64_t>;
    const Vector<double> one = broadcast(1.0), two_52 = broadcast(0x1p52);
    const Vector<double> sum = one + x, part = sum - one;
    const Vector<double> lost = (one - (sum - part)) + (x - part);
    const Bits bits = reinterpret<Bits>(sum);
    const Bits exponent = (bits - broadcast<std::uint64_t>(0x3fe6a09e667f3bcd)) >> 52;
    const Vector<double> m = reinterpret<Vector<double>>(bits - (exponent << 52));
    const Vector<double> k =
        reinterpret<Vector<double>>(exponent | reinterpret<Bits>(two_52)) - two_52;
    const Vector<double> q = (m - one) / (m + one), square = q * q;
    const Vector<double> twice = q + q;
    const Vector<double> tail = polynomial(series, square) * (square * twice) + lost / sum;
    return k * broadcast(Decay<double>::log2_high) +
           (twice + (tail + k * broadcast(Decay<double>::log2_low)));
}

MERCER_INLINE Vector<float> square_root(Vector<float> v) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<float>)_mm512_sqrt_ps((__m512)v);
#elif defined(__AVX2__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<float>)_mm256_sqrt_ps((__m256)v);
#elif defined(__SSE4_1__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<float>)_mm_sqrt_ps((__m128)v);
#else
    float lane[lanes<float>];
    store(lane, v);
    for (float& x : lane) x = std::sqrt(x);
    return load(lane);
#endif
}

}  // namespace
}  // namespace mercer
