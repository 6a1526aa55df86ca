// Cosines of vectors, and of blocks of inner products while these are still in registers.
#pragma once

#include "loops.hpp"
#include "simd.hpp"

namespace mercer {
namespace {

// x = k pi + r, |r| <= pi/2: the cosine is an even polynomial of r, the sine an odd one, both with
// the sign of (-1)^k. `pi_high` has so few bits that k * pi_high is exact; coefficients are minimax
// for the absolute error (2e-10 and 5e-9 in float32, 4e-18 and 2e-19 in float64).
template <class T>
struct Trigonometry;

template <>
struct Trigonometry<float> {
    using Bits = std::uint32_t;
    static constexpr float to_integer = 0x1.8p23f;  // adding it rounds, parity in the last bit
    static constexpr float pi_high = 3.140625f, pi_low = 0x1.fb5444p-11f;
    static constexpr float cosine[] = {-2.6076961958423225e-7f, 2.4761878493018935e-5f,
                                       -1.3888403365429091e-3f, 4.1666640717862856e-2f,
                                       -4.9999999549335632e-1f};
    static constexpr float sine[] = {2.6000396616303320e-6f, -1.9806608417212382e-4f,
                                     8.3330171983704021e-3f, -1.6666657092733108e-1f};
};

template <>
struct Trigonometry<double> {
    using Bits = std::uint64_t;
    static constexpr double to_integer = 0x1.8p52;
    static constexpr double pi_high = 0x1.921fb544p+1, pi_low = 0x1.0b4611a626331p-33;
    static constexpr double cosine[] = {4.6102777110522189212e-14, -1.1463037862490415387e-11,
                                        2.0876567685367596331e-9,  -2.7557316524167884223e-7,
                                        2.4801587279137996459e-5,  -1.3888888888785591371e-3,
                                        4.1666666666664367682e-2,  -4.9999999999999998251e-1};
    static constexpr double sine[] = {2.7184873620920568561e-15, -7.6427120608525142501e-13,
                                      1.6058927802494496769e-10, -2.5052106605942340550e-8,
                                      2.7557319207779021014e-6,  -1.9841269841185911783e-4,
                                      8.3333333333331138543e-3,  -1.6666666666666664549e-1};
};

constexpr double kPi = 3.14159265358979323846;

// r, and the sign (a bit) of both functions. Far beyond 10^4 (float32) or 10^6 (float64) r loses
// its digits and then its range, so both functions confine their result to [-1, 1].
template <class T>
struct Reduced {
    Vector<T> r;
    Vector<typename Trigonometry<T>::Bits> sign;
};
template <class T>
MERCER_INLINE Reduced<T> reduce(Vector<T> x) {
    using Table = Trigonometry<T>;
    using Bits = Vector<typename Table::Bits>;
    const Vector<T> magic = broadcast(Table::to_integer);
    const Vector<T> shifted = x * broadcast(T(1 / kPi)) + magic;
    const Vector<T> k = shifted - magic;
    Vector<T> r = x - k * broadcast(Table::pi_high);
    r = r - k * broadcast(Table::pi_low);
    return {r, reinterpret<Bits>(shifted) << (8 * static_cast<int>(sizeof(T)) - 1)};
}

template <class T, std::size_t n>
MERCER_INLINE Vector<T> polynomial(const T (&coefficients)[n], Vector<T> s) {
    Vector<T> sum = broadcast(coefficients[0]);
    for (std::size_t i = 1; i < n; ++i) sum = sum * s + broadcast(coefficients[i]);
    return sum;
}

template <class T>
MERCER_INLINE Vector<T> with_sign(Vector<T> x, const Reduced<T>& reduced) {
    return reinterpret<Vector<T>>(reinterpret<decltype(reduced.sign)>(x) ^ reduced.sign);
}

template <class T>
MERCER_INLINE Vector<T> cosine_of(const Reduced<T>& x) {
    const Vector<T> s = smaller(x.r * x.r, broadcast(T(4)));
    return with_sign(polynomial(Trigonometry<T>::cosine, s) * s + broadcast(T(1)), x);
}

template <class T>
MERCER_INLINE Vector<T> sine_of(const Reduced<T>& x) {
    const Vector<T> s = x.r * x.r;
    const Vector<T> sine = polynomial(Trigonometry<T>::sine, s) * (s * x.r) + x.r;
    return with_sign(larger(smaller(sine, broadcast(T(1))), broadcast(T(-1))), x);
}

// Calls f(offset, count) for pieces of at most one vector.
template <class T, class F>
MERCER_INLINE void for_each_vector(std::size_t n, F f) {
    constexpr std::size_t step = lanes<T>;
    std::size_t i = 0;
    for (; i + step <= n; i += step) f(i, step);
    if (i < n) f(i, n - i);
}
template <class T>
MERCER_INLINE Vector<T> load_some(const T* from, std::size_t count) {
    if (count == static_cast<std::size_t>(lanes<T>)) return load(from);
    Vector<T> v = broadcast(T(0));
    std::memcpy(&v, from, count * sizeof(T));
    return v;
}
template <class T>
MERCER_INLINE void store_some(T* to, Vector<T> v, std::size_t count) {
    if (count == static_cast<std::size_t>(lanes<T>))
        store(to, v);
    else
        std::memcpy(to, &v, count * sizeof(T));
}

template <class T>
MERCER_INLINE void store_pairs(T* to, const Reduced<T>& x, Vector<T> scale, std::size_t count) {
    T cosine[lanes<T>], sine[lanes<T>], pairs[2 * lanes<T>];
    store(cosine, scale * cosine_of(x));
    store(sine, scale * sine_of(x));
    for (int i = 0; i < lanes<T>; ++i) {
        pairs[2 * i] = cosine[i];
        pairs[2 * i + 1] = sine[i];
    }
    if (count == static_cast<std::size_t>(lanes<T>))
        std::memcpy(to, pairs, sizeof pairs);
    else
        std::memcpy(to, pairs, 2 * count * sizeof(T));
}

template <class T>
void cosine_row(const T* arguments, const T* phases, std::size_t n, T scale, T* out) {
    for_each_vector<T>(n, [&](std::size_t i, std::size_t count) {
        const Vector<T> x = load_some(arguments + i, count) + load_some(phases + i, count);
        store_some(out + i, broadcast(scale) * cosine_of(reduce<T>(x)), count);
    });
}

template <class T>
void pairs_row(const T* arguments, std::size_t n, T scale, T* out) {
    for_each_vector<T>(n, [&](std::size_t i, std::size_t count) {
        const Reduced<T> x = reduce<T>(load_some(arguments + i, count));
        store_pairs(out + 2 * i, x, broadcast(scale), count);
    });
}

// ---- blocks of inner products -------------------------------------------------------------------

// Rows of the left panel; accumulators take most of the registers.
#if defined(__AVX512F__)
constexpr int kLeft = 12;
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int kLeft = 6;
#else
constexpr int kLeft = 4;
#endif
constexpr int kRightVectors = 2;
template <class T>
constexpr int kRight = kRightVectors * lanes<T>;

// sums (kLeft, kRight) += left' right, panels of `depth` steps
template <class T>
MERCER_INLINE void multiply_panels(const T* left, const T* right, std::size_t depth, T* sums) {
    constexpr int step = lanes<T>;
    Vector<T> sum[kLeft][kRightVectors] = {};
    for (std::size_t k = 0; k < depth; ++k) {
        Vector<T> r[kRightVectors];
        for (int v = 0; v < kRightVectors; ++v) r[v] = load(right + v * step);
        for (int i = 0; i < kLeft; ++i)
            for (int v = 0; v < kRightVectors; ++v) sum[i][v] += broadcast(left[i]) * r[v];
        left += kLeft;
        right += kRight<T>;
    }
    for (int i = 0; i < kLeft; ++i)
        for (int v = 0; v < kRightVectors; ++v) {
            T* total = sums + i * kRight<T> + v * step;
            store(total, load<T>(total) + sum[i][v]);
        }
}

// The depth is cut into equal pieces, short enough for the nearest cache and for accurate sums.
// Cosines follow each left panel of the last piece, so that stores overlap with multiplications.
template <class T>
void cosine_tile(const CosineTile<T>& tile) {
    constexpr std::size_t left = kLeft, right = kRight<T>;
    static_assert(kCosineRows % left == 0);
    T sums[kCosineRows * right];
    std::memset(sums, 0, (tile.rows + left - 1) / left * left * right * sizeof(T));
    const std::size_t pieces = tile.depth / kCosineDepth + 1;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        const std::size_t k = tile.depth * piece / pieces;
        const std::size_t depth = tile.depth * (piece + 1) / pieces - k;
        for (std::size_t i = 0; i < tile.rows; i += left) {
            multiply_panels(tile.points + i * tile.depth + k * left, tile.frequencies + k * right,
                            depth, sums + i * right);
            if (piece + 1 < pieces) continue;
            for (std::size_t row = i; row < i + left && row < tile.rows; ++row) {
                T* out = tile.out + row * tile.out_step;
                if (tile.phases)
                    cosine_row(sums + row * right, tile.phases, tile.columns, tile.scale, out);
                else
                    pairs_row(sums + row * right, tile.columns, tile.scale, out);
            }
        }
    }
}

// Turns `count` rows of length d, count at most `width`, into d groups of `width` numbers.
template <class T>
void pack_panel(const T* rows, std::size_t count, std::size_t d, std::size_t width, T* panel) {
    for (std::size_t i = 0; i < width; ++i)
        for (std::size_t k = 0; k < d; ++k)
            panel[k * width + i] = i < count ? rows[i * d + k] : T(0);
}

}  // namespace
}  // namespace mercer
