// Walsh-Hadamard transforms. Compiled once per instruction-set level into a table and nothing else:
// the only symbol of this file.
#include "hadamard_loops.hpp"
#include "simd.hpp"

#include <algorithm>
#include <bit>
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

// Rows of `width` vectors each, transformed along the rows. Every pass does a few steps of
// butterflies; the first reads row i, vector q as load(i, q), the last calls store(i, q, v), those
// between keep their numbers in `work`.
template <class T, class Load, class Store>
class Transform {
  public:
    Transform(std::size_t length, std::size_t width, T* work, Load load_row, Store store_row)
        : length_(length), width_(width), work_(work), load_(load_row), store_(store_row) {
        const int bits = std::bit_width(length) - 1;
        const int passes = std::max(1, (bits + kMostBits - 1) / kMostBits);
        for (int p = 0; p < passes; ++p) {
            const int start = bits * p / passes, stop = bits * (p + 1) / passes;
            distance_ = std::size_t{1} << start;
            switch (stop - start) {
            case 0: pass<0>(p == 0, p + 1 == passes); break;
            case 1: pass<1>(p == 0, p + 1 == passes); break;
            case 2: pass<2>(p == 0, p + 1 == passes); break;
            case 3: pass<3>(p == 0, p + 1 == passes); break;
            default: pass<kMostBits>(p == 0, p + 1 == passes);
            }
        }
    }

  private:
    template <int bits>
    MERCER_INLINE void pass(bool first, bool last) {
        const auto kept = [this](std::size_t i, std::size_t q) { return load(place(i, q)); };
        const auto keep = [this](std::size_t i, std::size_t q, Vector<T> v) {
            store(place(i, q), v);
        };
        if (first && last)
            run<bits>(load_, store_);
        else if (first)
            run<bits>(load_, keep);
        else if (last)
            run<bits>(kept, store_);
        else
            run<bits>(kept, keep);
    }

    template <int bits, class From, class To>
    MERCER_INLINE void run(const From& from, const To& to) const {
        constexpr int radix = 1 << bits;
        const std::size_t distance = distance_, length = length_, width = width_;
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

    T* place(std::size_t i, std::size_t q) const { return work_ + (i * width_ + q) * lanes<T>; }

    std::size_t length_, width_, distance_ = 1;
    T* work_;
    const Load& load_;
    const Store& store_;
};

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
    const auto write = [&](std::size_t i, std::size_t, Vector<T> v) { store(a + i * step, v); };
    Transform<T, decltype(read), decltype(write)>(length / step, 1, a, read, write);
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
        Transform<T, decltype(read), decltype(write)>(length, vectors, work, read, write);
    }
    if (rest) {
        T* last = rows + vectors * group;
        const auto read = [&](std::size_t i, std::size_t) {
            return load_first(last + i * step, rest);
        };
        const auto write = [&](std::size_t i, std::size_t, Vector<T> v) {
            store_first<T>(last + i * step, v, rest);
        };
        Transform<T, decltype(read), decltype(write)>(length, 1, work, read, write);
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
    const auto to_first = [&](std::size_t i, std::size_t, Vector<T> v) {
        store(first + i * group, v);
    };
    Transform<T, decltype(scaled_input), decltype(to_first)>(length, 1, first, scaled_input,
                                                             to_first);
    const auto shuffled = [&](std::size_t i, std::size_t) {
        return load(first + block.order[i] * group) * broadcast(block.gains[i]);
    };
    const auto to_second = [&](std::size_t i, std::size_t, Vector<T> v) {
        store(second + i * group, v);
    };
    Transform<T, decltype(shuffled), decltype(to_second)>(length, 1, second, shuffled, to_second);
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
