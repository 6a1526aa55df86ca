// Walsh-Hadamard transforms. Compiled once per instruction-set level into a table and nothing else:
// the only symbol of this file.
#include "hadamard_loops.hpp"
#include "simd.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

// Butterflies between registers: as many steps at once as the registers hold numbers for.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kMostBits = 4;
#else
constexpr int kMostBits = 3;
#endif

// f(0), ..., f(count - 1) written out, so that arrays of vectors become registers.
template <class F, int... i>
MERCER_INLINE void write_out(F f, std::integer_sequence<int, i...>) {
    (f(Constant<i>()), ...);
}
template <int count, class F>
MERCER_INLINE void for_each(F f) {
    write_out(f, std::make_integer_sequence<int, count>());
}

// ---- lanes --------------------------------------------------------------------------------------

template <class T>
using Lanes = std::make_integer_sequence<int, lanes<T>>;

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && !defined(MERCER_PLAIN_VECTORS)
#define MERCER_SHUFFLES
#endif
#endif

// Lane i of the result is lane place[i] of a followed by b.
template <class T, int... place>
MERCER_INLINE Vector<T> shuffle(Vector<T> a, Vector<T> b) {
#if defined(MERCER_SHUFFLES)
    return __builtin_shufflevector(a, b, place...);
#else
    T pair[2 * lanes<T>];
    store(pair, a);
    store(pair + lanes<T>, b);
    const T chosen[] = {pair[place]...};
    return load(chosen);
#endif
}

// The butterflies between lanes i and i ^ distance: sums where the bit is clear, else differences.
template <int distance, class T, int... i>
MERCER_INLINE Vector<T> butterfly_of_lanes(Vector<T> v, std::integer_sequence<int, i...>) {
    const T signs[] = {(i & distance) ? T(-1) : T(1)...};
    return v * load(signs) + shuffle<T, (i ^ distance)...>(v, v);
}
template <class T, int distance = 1>
MERCER_INLINE Vector<T> transform_lanes(Vector<T> v) {
    if constexpr (distance < lanes<T>)
        return transform_lanes<T, 2 * distance>(butterfly_of_lanes<distance, T>(v, Lanes<T>()));
    else
        return v;
}

// Exchanges bit `distance` of the lane with that of the vector.
template <int distance, class T, int... i>
MERCER_INLINE void exchange(Vector<T>& a, Vector<T>& b, std::integer_sequence<int, i...>) {
    constexpr int n = lanes<T>;
    const Vector<T> low = shuffle<T, ((i & distance) ? (i ^ distance) + n : i)...>(a, b);
    b = shuffle<T, ((i & distance) ? i + n : i ^ distance)...>(a, b);
    a = low;
}
template <class T, int distance = 1>
MERCER_INLINE void transpose(Vector<T> (&v)[lanes<T>]) {
    if constexpr (distance < lanes<T>) {
        for_each<lanes<T>>([&v](auto r) MERCER_INLINE_BODY {
            if constexpr (!(r() & distance))
                exchange<distance, T>(v[r()], v[r() | distance], Lanes<T>());
        });
        transpose<T, 2 * distance>(v);
    }
}

template <class T>
MERCER_INLINE Vector<T> load_first(const T* from, std::size_t count) {
    if (count >= static_cast<std::size_t>(lanes<T>)) return load(from);
    T some[lanes<T>] = {};
    std::copy_n(from, count, some);
    return load(some);
}
template <class T>
MERCER_INLINE void store_first(T* to, Vector<T> v, std::size_t count) {
    if (count >= static_cast<std::size_t>(lanes<T>)) return store(to, v);
    T some[lanes<T>];
    store(some, v);
    std::copy_n(some, count, to);
}

// ---- passes -------------------------------------------------------------------------------------

template <class T, int bits>
MERCER_INLINE void butterflies(Vector<T>* v) {
    if constexpr (bits > 0) {
        constexpr int half = 1 << (bits - 1);
        butterflies<T, bits - 1>(v);
        butterflies<T, bits - 1>(v + half);
        for_each<half>([v](auto r) MERCER_INLINE_BODY {
            const Vector<T> a = v[r()], b = v[r() + half];
            v[r()] = a + b;
            v[r() + half] = a - b;
        });
    }
}

// The steps of 2^bits-fold butterflies between rows of `width` vectors that are `distance` rows
// apart, and 2, 4, ... times as far. Row i, vector q is read as from(i, q) and written as
// to(i, q, v).
struct Pass {
    std::size_t length, width, distance;

    template <class T, int bits, class From, class To>
    MERCER_INLINE void run(From from, To to) const {
        constexpr int radix = 1 << bits;
        for (std::size_t start = 0; start < length; start += radix * distance)
            for (std::size_t i = start; i < start + distance; ++i)
                for (std::size_t q = 0; q < width; ++q) {
                    Vector<T> v[radix];
                    for_each<radix>([&](auto r) MERCER_INLINE_BODY {
                        v[r()] = from(i + static_cast<std::size_t>(r()) * distance, q);
                    });
                    butterflies<T, bits>(v);
                    for_each<radix>([&](auto r) MERCER_INLINE_BODY {
                        to(i + static_cast<std::size_t>(r()) * distance, q, v[r()]);
                    });
                }
    }

    // The only pass has 0 to kMostBits steps, one of several has at least two.
    template <class T, bool only, class From, class To>
    MERCER_INLINE void run(int bits, From from, To to) const {
        switch (bits) {
        case 0:
            if constexpr (only) run<T, 0>(from, to);
            break;
        case 1:
            if constexpr (only) run<T, 1>(from, to);
            break;
        case 2: run<T, 2>(from, to); break;
        case 3: run<T, 3>(from, to); break;
        default:
            if constexpr (kMostBits > 3) run<T, kMostBits>(from, to);
        }
    }
};

// Numbers between two passes: rows of `width` vectors, or of one.
template <class T, bool single>
struct Kept {
    T* numbers;
    std::size_t width;

    T* place(std::size_t i, std::size_t q) const {
        return numbers + (single ? i : i * width + q) * lanes<T>;
    }
    MERCER_INLINE Vector<T> operator()(std::size_t i, std::size_t q) const {
        return load(place(i, q));
    }
    MERCER_INLINE void operator()(std::size_t i, std::size_t q, Vector<T> v) const {
        store(place(i, q), v);
    }
};

template <class T, bool single>
void run_kept(Pass pass, int bits, Kept<T, single> kept) {
    if constexpr (single) pass.width = 1;
    pass.run<T, single>(bits, kept, kept);  // a single column may have one pass
}

// Rows of kept.width vectors each, transformed along the rows in passes of a few steps. The first
// pass reads load_row(i, q), the last writes store_row(i, q, v): where that is `kept`, one code
// serves for all of them after the first.
template <class T, bool single, class Load, class Store>
MERCER_INLINE void transform(std::size_t length, Kept<T, single> kept, Load load_row,
                             Store store_row) {
    constexpr bool stays = std::is_same_v<Store, Kept<T, single>>;
    const int bits = std::bit_width(length) - 1;
    const int passes = std::max(1, (bits + kMostBits - 1) / kMostBits);
    for (int p = 0; p < passes; ++p) {
        const int start = bits * p / passes, steps = bits * (p + 1) / passes - start;
        const Pass pass{length, single ? 1 : kept.width, std::size_t{1} << start};
        if (p == 0 && !std::is_same_v<Load, Store> && (stays || passes == 1))
            pass.run<T, true>(steps, load_row, store_row);
        else if (p == 0 && !stays)
            pass.run<T, false>(steps, load_row, kept);
        else if (stays || p + 1 < passes)
            run_kept(pass, steps, kept);
        else
            pass.run<T, false>(steps, kept, store_row);
    }
}

// ---- the functions ------------------------------------------------------------------------------

// A row that is shorter than a vector.
template <class T>
void short_row(T* a, std::size_t length) {
    for (std::size_t distance = 1; distance < length; distance *= 2)
        for (std::size_t i = 0; i < length; ++i)
            if (!(i & distance)) {
                const T x = a[i], y = a[i | distance];
                a[i] = x + y;
                a[i | distance] = x - y;
            }
}

// In place: stores wait for their cache lines one after the other, and those just loaded are near.
template <class T>
void row(T* a, std::size_t length) {
    constexpr std::size_t step = lanes<T>;
    if (length < step) return short_row(a, length);
    const auto read = [&](std::size_t i, std::size_t) {
        return transform_lanes<T>(load(a + i * step));
    };
    const Kept<T, true> kept{a, 1};
    transform(length / step, kept, read, kept);
}

template <class T>
void columns(T* rows, std::size_t length, std::size_t step, std::size_t width, T* work) {
    constexpr std::size_t group = lanes<T>;
    const std::size_t vectors = width / group, rest = width % group;
    if (vectors) {
        const auto read = [&](std::size_t i, std::size_t q) {
            return load(rows + i * step + q * group);
        };
        const auto write = [&](std::size_t i, std::size_t q, Vector<T> v) {
            store(rows + i * step + q * group, v);
        };
        transform(length, Kept<T, false>{work, vectors}, read, write);
    }
    if (rest) {
        T* last = rows + vectors * group;
        const Kept<T, true> kept{work, 1};
        for (std::size_t i = 0; i < length; ++i) kept(i, 0, load_first(last + i * step, rest));
        transform(length, kept, kept, kept);
        for (std::size_t i = 0; i < length; ++i) store_first<T>(last + i * step, kept(i, 0), rest);
    }
}

template <class T>
void pack(const T* rows, std::size_t count, std::size_t d, T* tile) {
    constexpr std::size_t group = lanes<T>;
    for (std::size_t j = 0; j < d; j += group) {
        Vector<T> v[group];
        const std::size_t inputs = std::min(group, d - j);
        for (std::size_t i = 0; i < group; ++i)
            v[i] = i < count ? load_first(rows + i * d + j, inputs) : broadcast(T(0));
        transpose<T>(v);
        for (std::size_t i = 0; i < inputs; ++i) store(tile + (j + i) * group, v[i]);
    }
}

template <class T>
void fastfood(const T* tile, std::size_t count, const FastfoodBlock<T>& block, T* to,
              std::size_t step, T* work) {
    constexpr std::size_t group = lanes<T>;
    const std::size_t length = block.length;
    T* first = work;
    T* second = work + length * group;
    const auto scaled_input = [&](std::size_t i, std::size_t) {
        return i < block.d ? load(tile + i * group) * broadcast(block.factors[i]) : broadcast(T(0));
    };
    const Kept<T, true> kept_first{first, 1}, kept_second{second, 1};
    transform(length, kept_first, scaled_input, kept_first);
    const auto shuffled = [&](std::size_t i, std::size_t) {
        return load(first + block.order[i] * group) * broadcast(block.gains[i]);
    };
    transform(length, kept_second, shuffled, kept_second);
    for (std::size_t c = 0; c < block.columns; c += group) {
        const std::size_t wide = std::min(group, block.columns - c);
        Vector<T> v[group];
        for (std::size_t r = 0; r < group; ++r)
            v[r] = r < wide ? load(second + (c + r) * group) * broadcast(block.lengths[c + r])
                            : broadcast(T(0));
        transpose<T>(v);
        for (std::size_t i = 0; i < count; ++i) store_first<T>(to + i * step + c, v[i], wide);
    }
}

template <class T>
constexpr HadamardLoops<T> loops = {lanes<T>, row<T>, columns<T>, pack<T>, fastfood<T>};

}  // namespace

extern const HadamardTable MERCER_JOIN(hadamard_loops_, MERCER_LEVEL);
const HadamardTable MERCER_JOIN(hadamard_loops_, MERCER_LEVEL) = {loops<float>, loops<double>};

}  // namespace mercer
