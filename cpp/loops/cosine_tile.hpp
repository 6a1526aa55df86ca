// Cosines of vectors, and of blocks of inner products while these are still in registers.
#pragma once

#include "elementary.hpp"
#include "loops.hpp"
#include "panels.hpp"

namespace mercer {
namespace {

// Angles are counted in half-turns: u = k + f, |f| <= 1/2, and f is exact. The cosine of pi u is an
// even polynomial of f, 1 + f^2 P(f^2), the sine an odd one, f Q(f^2), both with the sign of
// (-1)^k. Coefficients are minimax for the absolute error (2e-10 and 3e-9 in float32, 4e-18 and
// 2e-19 in float64).
template <class T>
struct Trigonometry;

template <>
struct Trigonometry<float> {
    using Bits = std::uint32_t;
    static constexpr float to_integer = 0x1.8p23f;  // adding it rounds, parity in the last bit
    static constexpr float pi[] = {3.140625f, 0x1.fb4p-11f, 0x1.4442d2p-23f};
    static constexpr float cosine[] = {-2.4420645964578584418e-2f, 2.3495389606263342568e-1f,
                                       -1.3352160993538640231f, 4.0587095993605651057f,
                                       -4.9348021560789472818f};
    static constexpr float sine[] = {7.7219937178587229476e-2f, -5.9804507823793036873e-1f,
                                     2.5500313615474977255f, -5.1677068779893211371f,
                                     3.1415925800300461206f};
};

template <>
struct Trigonometry<double> {
    using Bits = std::uint64_t;
    static constexpr double to_integer = 0x1.8p52;
    static constexpr double pi[] = {0x1.921fb544p+1, 0x1.0b4611a626331p-33};
    static constexpr double cosine[] = {4.1507442417215941422e-6, -1.0456780184095444718e-4,
                                        1.9295568158243464535e-3, -2.5806888862278949625e-2,
                                        2.3533063014594463634e-1, -1.3352627688446620736,
                                        4.0587121264165443679,    -4.934802200544677584};
    static constexpr double sine[] = {
        7.6839296876685338993e-7,  -2.1902020446707994331e-5, 4.6629917012937408386e-4,
        -7.3704303559279876549e-3, 8.214588655327083084e-2,   -5.9926452931745710467e-1,
        2.5501640398772413007,     -5.1677127800499685509,    3.1415926535897932323};
};

constexpr double kPi = 3.14159265358979323846;

// f, and the sign (a bit) of both functions.
template <class T>
struct Reduced {
    Vector<T> f;
    Vector<typename Trigonometry<T>::Bits> sign;
};

// The angle in half-turns. Far beyond 10^6 (float32) f is no longer the rest, so both functions
// confine it.
template <class T>
MERCER_INLINE Reduced<T> half_turns(Vector<T> u) {
    using Bits = Vector<typename Trigonometry<T>::Bits>;
    const Vector<T> magic = broadcast(Trigonometry<T>::to_integer);
    const Vector<T> shifted = u + magic;
    return {u - (shifted - magic), reinterpret<Bits>(shifted)
                                       << (8 * static_cast<int>(sizeof(T)) - 1)};
}

// The angle in radians: parts of pi but the last have so few bits that k times them is exact, with
// or without fused multiplications. Far beyond 10^4 (float32) or 10^6 (float64) the rest loses its
// digits and then its range.
template <class T>
MERCER_INLINE Reduced<T> radians(Vector<T> x) {
    using Table = Trigonometry<T>;
    using Bits = Vector<typename Table::Bits>;
    const Vector<T> magic = broadcast(Table::to_integer), turns = broadcast(T(1 / kPi));
    const Vector<T> shifted = x * turns + magic;
    const Vector<T> k = shifted - magic;
    Vector<T> r = x;
    for (const T part : Table::pi) r = r - k * broadcast(part);
    return {r * turns, reinterpret<Bits>(shifted) << (8 * static_cast<int>(sizeof(T)) - 1)};
}

template <class T>
MERCER_INLINE Vector<T> with_sign(Vector<T> x, const Reduced<T>& reduced) {
    return reinterpret<Vector<T>>(reinterpret<decltype(reduced.sign)>(x) ^ reduced.sign);
}

template <class T>
MERCER_INLINE Vector<T> cosine_of(const Reduced<T>& u) {
    const Vector<T> s = smaller(u.f * u.f, broadcast(T(0.4)));
    return with_sign(polynomial(Trigonometry<T>::cosine, s) * s + broadcast(T(1)), u);
}

template <class T>
MERCER_INLINE Vector<T> sine_of(const Reduced<T>& u) {
    const Vector<T> f = larger(smaller(u.f, broadcast(T(0.6))), broadcast(T(-0.6)));
    const Vector<T> sine = polynomial(Trigonometry<T>::sine, f * f) * f;
    return with_sign(larger(smaller(sine, broadcast(T(1))), broadcast(T(-1))), u);
}

template <class T>
MERCER_INLINE void store_pairs(T* to, const Reduced<T>& u, Vector<T> scale, std::size_t count) {
    const Vector<T> cosine = scale * cosine_of(u), sine = scale * sine_of(u);
    if (count == static_cast<std::size_t>(lanes<T>)) {
        store_in_turn(to, cosine, sine);
        return;
    }
    T pairs[2 * lanes<T>];
    store_in_turn(pairs, cosine, sine);
    std::memcpy(to, pairs, 2 * count * sizeof(T));
}

template <class T>
void cosine_row(const T* arguments, const T* phases, std::size_t n, T scale, T* out) {
    for_each_vector<T>(n, [&](std::size_t i, std::size_t count) {
        const Vector<T> x = load_some(arguments + i, count) + load_some(phases + i, count);
        store_some(out + i, broadcast(scale) * cosine_of(radians<T>(x)), count);
    });
}

template <class T>
void pairs_row(const T* arguments, std::size_t n, T scale, T* out) {
    for_each_vector<T>(n, [&](std::size_t i, std::size_t count) {
        const Reduced<T> u = radians<T>(load_some(arguments + i, count));
        store_pairs(out + 2 * i, u, broadcast(scale), count);
    });
}

// ---- blocks of inner products -------------------------------------------------------------------

// Writes the cosines of the sums of one left panel: straight from the registers where all of them
// are wanted.
template <class T>
MERCER_INLINE void store_cosines(const CosineTile<T>& tile, std::size_t first,
                                 const PanelSums<T>& sums) {
    const Vector<T> scale = broadcast(tile.scale);
    T* const out = tile.out + first * tile.out_step;
    const auto phase = [&](std::size_t j) MERCER_INLINE_BODY {
        return tile.phases ? load(tile.phases + j) : broadcast(T(0));
    };
    if (tile.phases && first + kLeft <= tile.rows && tile.columns == kRight<T>) {
        for (int i = 0; i < kLeft; ++i)
            for (int v = 0; v < kRightVectors; ++v)
                store(out + static_cast<std::size_t>(i) * tile.out_step + v * lanes<T>,
                      scale * cosine_of(half_turns<T>(sums[i][v] + phase(v * lanes<T>))));
        return;
    }
    T turns[kLeft * kRight<T>];
    std::memcpy(turns, sums, sizeof turns);
    for (std::size_t i = 0; i < kLeft && first + i < tile.rows; ++i)
        for_each_vector<T>(tile.columns, [&](std::size_t j, std::size_t count) {
            const Reduced<T> u = half_turns<T>(load(turns + i * kRight<T> + j) + phase(j));
            if (tile.phases)
                store_some(out + i * tile.out_step + j, scale * cosine_of(u), count);
            else
                store_pairs(out + i * tile.out_step + 2 * j, u, scale, count);
        });
}

// Cosines follow each left panel of the last piece, so that stores overlap with multiplications.
template <class T>
void cosine_tile(const CosineTile<T>& tile) {
    constexpr std::size_t left = kLeft, right = kRight<T>;
    static_assert(kCosineRows % left == 0);
    T totals[kCosineRows * right];
    const auto product = [](Vector<T> sum, Vector<T> l, Vector<T> r, std::size_t)
                             MERCER_INLINE_BODY { return sum + l * r; };
    for_each_piece<1024 / sizeof(T)>(
        tile.depth, [&](std::size_t k, std::size_t depth, bool first, bool last) {
            for (std::size_t i = 0; i < tile.rows; i += left) {
                PanelSums<T> sums = {};
                accumulate(tile.points + i * tile.depth + k * left, tile.frequencies + k * right,
                           depth, sums, product);
                T* const total = totals + i * right;
                if (!first)
                    for (int q = 0; q < kLeft * kRightVectors; ++q)
                        sums[q / kRightVectors][q % kRightVectors] += load(total + q * lanes<T>);
                if (last)
                    store_cosines(tile, i, sums);
                else
                    std::memcpy(total, sums, sizeof sums);
            }
        });
}

// `count` rows of length d, count at most `width`, times `factor`, as d groups of `width` numbers.
template <class T>
void pack_scaled(const T* rows, std::size_t count, std::size_t d, std::size_t width, double factor,
                 T* panel) {
    pack(rows, count, d, width, panel,
         [factor](T x, std::size_t) { return static_cast<T>(static_cast<double>(x) * factor); });
}

}  // namespace
}  // namespace mercer
