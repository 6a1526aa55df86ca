// Fixed-width vectors for the hot loops: the compiler's own vectors under GCC and Clang, plain
// arrays elsewhere. Included only by the files that are compiled once per instruction-set level.
// All of it has internal linkage: no symbol of one level may stand in for another's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define MERCER_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define MERCER_VECTOR_BYTES 32
#else
#define MERCER_VECTOR_BYTES 16
#endif
#if defined(__GNUC__)
#define MERCER_INLINE inline __attribute__((always_inline))
#define MERCER_INLINE_BODY __attribute__((always_inline))
#else
#define MERCER_INLINE inline
#define MERCER_INLINE_BODY
#endif

namespace mercer {
namespace {

// A number the compiler knows, as an argument.
template <int value>
struct Constant {
    constexpr int operator()() const { return value; }
};

template <class T>
constexpr int lanes = MERCER_VECTOR_BYTES / static_cast<int>(sizeof(T));

#if defined(__GNUC__) && !defined(MERCER_PLAIN_VECTORS)

template <class T>
struct VectorOf {
    typedef T type __attribute__((vector_size(MERCER_VECTOR_BYTES)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class To, class From>
MERCER_INLINE To reinterpret(From v) {
    return (To)v;
}
template <class T>
MERCER_INLINE Vector<T> broadcast(T value) {
    return value - Vector<T>{};
}
// All bits set in the lanes where a >= b, none elsewhere.
template <class To, class V>
MERCER_INLINE To at_least(V a, V b) {
    return (To)(a >= b);
}
template <class V>
MERCER_INLINE V smaller(V a, V b) {  // b where a is not a number
    return a < b ? a : b;
}
template <class V>
MERCER_INLINE V larger(V a, V b) {  // b where a is not a number
    return a > b ? a : b;
}
MERCER_INLINE Vector<double> widen(const float* p) {
    typedef float Half __attribute__((vector_size(MERCER_VECTOR_BYTES / 2)));
    Half half;
    std::memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, Vector<double>);
}

#else

template <class T>
struct Vector {
    T lane[lanes<T>];
};
template <class To, class From>
MERCER_INLINE To reinterpret(From v) {
    To result;
    std::memcpy(&result, &v, sizeof result);
    return result;
}
template <class T, class F>
MERCER_INLINE Vector<T> lanewise(Vector<T> a, Vector<T> b, F f) {
    for (int i = 0; i < lanes<T>; ++i) a.lane[i] = static_cast<T>(f(a.lane[i], b.lane[i]));
    return a;
}
#define MERCER_OPERATOR(op)                                                                        \
    template <class T>                                                                             \
    MERCER_INLINE Vector<T> operator op(Vector<T> a, Vector<T> b) {                                \
        return lanewise(a, b, [](T x, T y) { return x op y; });                                    \
    }                                                                                              \
    template <class T>                                                                             \
    MERCER_INLINE Vector<T>& operator op## = (Vector<T> & a, Vector<T> b) {                        \
        return a = a op b;                                                                         \
    }
MERCER_OPERATOR(+)
MERCER_OPERATOR(-)
MERCER_OPERATOR(*)
MERCER_OPERATOR(/)
MERCER_OPERATOR(&)
MERCER_OPERATOR(|)
MERCER_OPERATOR(^)
#undef MERCER_OPERATOR
template <class T>
MERCER_INLINE Vector<T> broadcast(T value) {
    Vector<T> v;
    for (T& lane : v.lane) lane = value;
    return v;
}
template <class T>
MERCER_INLINE Vector<T> operator<<(Vector<T> a, int by) {
    return lanewise(a, a, [by](T x, T) { return x << by; });
}
template <class T>
MERCER_INLINE Vector<T> operator>>(Vector<T> a, int by) {
    return lanewise(a, a, [by](T x, T) { return x >> by; });
}
template <class To, class T>
MERCER_INLINE To at_least(Vector<T> a, Vector<T> b) {
    To mask{};
    for (int i = 0; i < lanes<T>; ++i)
        mask.lane[i] = 0 - static_cast<decltype(+mask.lane[0])>(a.lane[i] >= b.lane[i]);
    return mask;
}
template <class T>
MERCER_INLINE Vector<T> smaller(Vector<T> a, Vector<T> b) {
    return lanewise(a, b, [](T x, T y) { return x < y ? x : y; });
}
template <class T>
MERCER_INLINE Vector<T> larger(Vector<T> a, Vector<T> b) {
    return lanewise(a, b, [](T x, T y) { return x > y ? x : y; });
}
MERCER_INLINE Vector<double> widen(const float* p) {
    Vector<double> v;
    for (double& lane : v.lane) lane = *p++;
    return v;
}

#endif

// sum + term in the lanes where a >= b. With mask registers a choice is cheapest, without them a
// mask.
MERCER_INLINE Vector<std::uint32_t> add_where_at_least(Vector<std::uint32_t> sum, Vector<float> a,
                                                       Vector<float> b,
                                                       Vector<std::uint32_t> term) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    return a >= b ? sum + term : sum;
#else
    return sum + (at_least<Vector<std::uint32_t>>(a, b) & term);
#endif
}

template <class T>
MERCER_INLINE Vector<T> load(const T* p) {
    Vector<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class T>
MERCER_INLINE void store(T* p, Vector<T> v) {
    std::memcpy(p, &v, sizeof v);
}
MERCER_INLINE Vector<double> widen(const double* p) {
    return load(p);
}

MERCER_INLINE Vector<float> magnitude(Vector<float> v) {
    using Bits = Vector<std::uint32_t>;
    return reinterpret<Vector<float>>(reinterpret<Bits>(v) & broadcast<std::uint32_t>(0x7fffffffu));
}
MERCER_INLINE Vector<double> magnitude(Vector<double> v) {
    using Bits = Vector<std::uint64_t>;
    return reinterpret<Vector<double>>(reinterpret<Bits>(v) &
                                       broadcast<std::uint64_t>(0x7fffffffffffffffu));
}

MERCER_INLINE Vector<double> square_root(Vector<double> v) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm512_sqrt_pd((__m512d)v);
#elif defined(__AVX2__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm256_sqrt_pd((__m256d)v);
#elif defined(__SSE4_1__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm_sqrt_pd((__m128d)v);
#else
    double lane[lanes<double>];
    store(lane, v);
    for (double& x : lane) x = std::sqrt(x);
    return load(lane);
#endif
}

// Whether a lane is at most 0.
template <class T>
MERCER_INLINE bool any_not_positive(Vector<T> v) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    if constexpr (sizeof(T) == 4)
        return _mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_LE_OQ) != 0;
    else
        return _mm512_cmp_pd_mask((__m512d)v, _mm512_setzero_pd(), _CMP_LE_OQ) != 0;
#else
    T lane[lanes<T>];
    store(lane, v);
    bool any = false;
    for (T x : lane) any |= x <= T(0);
    return any;
#endif
}

MERCER_INLINE void store_as(float* p, Vector<float> v) {
    store(p, v);
}
MERCER_INLINE void store_as(double* p, Vector<double> v) {
    store(p, v);
}
MERCER_INLINE void store_as(float* p, Vector<double> v) {
#if defined(__GNUC__) && !defined(MERCER_PLAIN_VECTORS)
    typedef float Half __attribute__((vector_size(MERCER_VECTOR_BYTES / 2)));
    const Half half = __builtin_convertvector(v, Half);
    std::memcpy(p, &half, sizeof half);
#else
    for (int i = 0; i < lanes<double>; ++i) p[i] = static_cast<float>(v.lane[i]);
#endif
}

// Lanes of a and b in turn, into 2 * lanes numbers.
template <class T>
MERCER_INLINE void store_in_turn(T* p, Vector<T> a, Vector<T> b) {
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(MERCER_PLAIN_VECTORS)
    constexpr int n = lanes<T>;
    [&]<int... i>(std::integer_sequence<int, i...>) MERCER_INLINE_BODY {
        store(p, __builtin_shufflevector(a, b, (i % 2 * n + i / 2)...));
        store(p + n, __builtin_shufflevector(a, b, (i % 2 * n + (n + i) / 2)...));
    }(std::make_integer_sequence<int, n>());
#else
    T even[lanes<T>], odd[lanes<T>];
    store(even, a);
    store(odd, b);
    for (int i = 0; i < lanes<T>; ++i) {
        p[2 * i] = even[i];
        p[2 * i + 1] = odd[i];
    }
#endif
}

// Whether a lane is not at most `limit`.
MERCER_INLINE bool any_above(Vector<float> v, float limit) {
    using Bits = Vector<std::uint32_t>;
    const Bits above = at_least<Bits>(broadcast(limit), v) ^ broadcast(~std::uint32_t{0});
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    return _mm512_test_epi32_mask((__m512i)above, (__m512i)above) != 0;
#elif defined(__AVX2__) && !defined(MERCER_PLAIN_VECTORS)
    return _mm256_movemask_epi8((__m256i)above) != 0;
#elif defined(__SSE4_1__) && !defined(MERCER_PLAIN_VECTORS)
    return _mm_movemask_epi8((__m128i)above) != 0;
#else
    std::uint32_t lane[lanes<float>], any = 0;
    store(lane, above);
    for (std::uint32_t bits : lane) any |= bits;
    return any != 0;
#endif
}

// The low halves of the lanes of two vectors.
MERCER_INLINE Vector<std::uint32_t> low_halves(const Vector<std::uint64_t>* pair) {
    std::uint64_t wide[lanes<std::uint32_t>];
    std::uint32_t narrow[lanes<std::uint32_t>];
    store(wide, pair[0]);
    store(wide + lanes<std::uint64_t>, pair[1]);
    for (int i = 0; i < lanes<std::uint32_t>; ++i) narrow[i] = static_cast<std::uint32_t>(wide[i]);
    return load(narrow);
}

// Largest integer not above v; exact for |v| < 2^51.
MERCER_INLINE Vector<double> floor(Vector<double> v) {
#if defined(__AVX512F__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm512_roundscale_pd((__m512d)v, _MM_FROUND_FLOOR);
#elif defined(__AVX2__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm256_floor_pd((__m256d)v);
#elif defined(__SSE4_1__) && !defined(MERCER_PLAIN_VECTORS)
    return (Vector<double>)_mm_floor_pd((__m128d)v);
#else
    const Vector<double> magic = broadcast(0x1.8p52);  // adding it rounds to the nearest integer
    const Vector<double> nearest = (v + magic) - magic;
    const auto fits = at_least<Vector<std::uint64_t>>(v, nearest);
    const auto one = reinterpret<Vector<std::uint64_t>>(broadcast(1.0));
    return nearest - broadcast(1.0) + reinterpret<Vector<double>>(fits & one);
#endif
}

}  // namespace
}  // namespace mercer
