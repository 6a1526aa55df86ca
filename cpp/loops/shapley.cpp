// Loops of Shapley values. Compiled once per instruction-set level into a table and nothing else:
// the only symbol of this file.
#include "shapley_loops.hpp"
#include "simd.hpp"

#include <cstdint>

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

// Two vectors of centres: products over players are chains, and one waits while the other goes on.
template <class T>
struct Real {
    static constexpr bool is_complex = false;
    Vector<T> first, second;
};
template <class T>
struct Complex {
    static constexpr bool is_complex = true;
    Real<T> real, imaginary;
};
template <class T>
constexpr std::size_t kTogether = 2 * lanes<T>;  // centres

template <class T>
MERCER_INLINE Real<T> operator+(Real<T> a, Real<T> b) {
    return {a.first + b.first, a.second + b.second};
}
template <class T>
MERCER_INLINE Real<T> operator-(Real<T> a, Real<T> b) {
    return {a.first - b.first, a.second - b.second};
}
template <class T>
MERCER_INLINE Real<T> operator*(Real<T> a, Real<T> b) {
    return {a.first * b.first, a.second * b.second};
}
template <class T>
MERCER_INLINE Real<T> times(T factor, Real<T> a) {
    return {broadcast(factor) * a.first, broadcast(factor) * a.second};
}
template <class T>
MERCER_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
}
template <class T>
MERCER_INLINE Complex<T> operator-(Complex<T> a, Complex<T> b) {
    return {a.real - b.real, a.imaginary - b.imaginary};
}
template <class T>
MERCER_INLINE Complex<T> operator*(Complex<T> a, Complex<T> b) {
    return {a.real * b.real - a.imaginary * b.imaginary,
            a.real * b.imaginary + a.imaginary * b.real};
}
template <class T>
MERCER_INLINE Complex<T> times(T factor, Complex<T> a) {
    return {times(factor, a.real), times(factor, a.imaginary)};
}

template <class T>
MERCER_INLINE void fill(Real<T>& a, T value) {
    a = {broadcast(value), broadcast(value)};
}
template <class T>
MERCER_INLINE void fill(Complex<T>& a, T value) {
    fill(a.real, value);
    fill(a.imaginary, T(0));
}

// `count` numbers, and zeros after them.
template <class T>
MERCER_INLINE void take(Real<T>& a, const T* from, std::size_t, std::size_t count) {
    constexpr std::size_t step = lanes<T>;
    if (count >= kTogether<T>) {
        a = {load(from), load(from + step)};
        return;
    }
    T lane[kTogether<T>] = {};
    for (std::size_t i = 0; i < count; ++i) lane[i] = from[i];
    a = {load(lane), load(lane + step)};
}
template <class T>
MERCER_INLINE void take(Complex<T>& a, const T* from, std::size_t plane_step, std::size_t count) {
    take(a.real, from, 0, count);
    take(a.imaginary, from + plane_step, 0, count);
}

template <class T>
MERCER_INLINE Real<T> real_product(Real<T> a, Real<T> b) {
    return a * b;
}
template <class T>
MERCER_INLINE Real<T> real_product(Complex<T> a, Complex<T> b) {
    return a.real * b.real - a.imaginary * b.imaginary;
}

// Sums of lanes in float64: coefficients of centres cancel.
template <class T>
MERCER_INLINE void add_to(double* sums, Real<T> a) {
    T lane[lanes<T>];
    store(lane, a.first + a.second);
    for (int i = 0; i < lanes<T>; i += lanes<double>)
        store(sums + i, load(sums + i) + widen(lane + i));
}
template <class T>
MERCER_INLINE double joined(const double* sums) {
    double total = 0;
    for (int i = 0; i < lanes<T>; ++i) total += sums[i];
    return total;
}

// What one call works with: numbers of some centres for every player, then sums.
template <class T, class Number>
struct Room {
    Number *factor, *mean, *change, *mixed, *before, *integral, *coef;
    double* sums;
    Room(void* room, std::size_t n_players, std::size_t n_outputs) {
        auto address = (reinterpret_cast<std::uintptr_t>(room) + 63) / 64 * 64;
        Number* next = reinterpret_cast<Number*>(address);
        for (Number** part : {&factor, &mean, &change, &mixed, &before, &integral}) {
            *part = next;
            next += n_players;
        }
        coef = next;
        sums = reinterpret_cast<double*>(next + n_outputs);
    }
    static std::size_t bytes(std::size_t n_players, std::size_t n_outputs) {
        return 64 + sizeof(Number) * (6 * n_players + n_outputs) +
               sizeof(double) * (n_players + 1) * n_outputs * lanes<T>;
    }
    void take_centres(const ShapleyRow<T>& row, std::size_t centre, std::size_t count) {
        const std::size_t n = row.n_centres, mean_step = row.n_players * n;
        for (std::size_t j = 0; j < row.n_players; ++j) {
            take(factor[j], row.factors + j * row.player_step + centre, row.plane_step, count);
            take(mean[j], row.means + j * n + centre, mean_step, count);
            change[j] = factor[j] - mean[j];
        }
        for (std::size_t o = 0; o < row.n_outputs; ++o)
            take(coef[o], row.coef + o * n + centre, row.n_outputs * n, count);
    }
    // integral[j]: of the product over all players but j and `left_out`, if there is one.
    void integrate(const ShapleyRow<T>& row, std::size_t left_out) {
        const std::size_t d = row.n_players;
        for (std::size_t j = 0; j < d; ++j) fill(integral[j], T(0));
        for (std::size_t s = 0; s < row.n_nodes; ++s) {
            const T t = static_cast<T>(row.nodes[s]);
            Number product;
            fill(product, static_cast<T>(row.weights[s]));
            for (std::size_t j = 0; j < d; ++j) {
                before[j] = product;
                if (j == left_out)
                    fill(mixed[j], T(1));
                else
                    mixed[j] = mean[j] + times(t, change[j]);
                product = product * mixed[j];
            }
            fill(product, T(1));
            for (std::size_t j = d; j-- > 0;) {
                integral[j] = integral[j] + before[j] * product;
                product = product * mixed[j];
            }
        }
    }
};

template <class T, class Number>
void values_of(const ShapleyRow<T>& row, void* memory, double* out) {
    const std::size_t d = row.n_players, k = row.n_outputs;
    Room<T, Number> room(memory, d, k);
    for (std::size_t i = 0; i < (d + 1) * k * lanes<T>; ++i) room.sums[i] = 0;
    for (std::size_t c = 0; c < row.n_centres; c += kTogether<T>) {
        room.take_centres(row, c, row.n_centres - c);
        room.integrate(row, d);
        Number whole;
        fill(whole, T(1));
        for (std::size_t j = 0; j <= d; ++j) {
            const Number part = j < d ? room.change[j] * room.integral[j] : whole;
            for (std::size_t o = 0; o < k; ++o)
                add_to(room.sums + (j * k + o) * lanes<T>, real_product(part, room.coef[o]));
            if (j < d) whole = whole * room.factor[j];
        }
    }
    for (std::size_t i = 0; i < (d + 1) * k; ++i) out[i] = joined<T>(room.sums + i * lanes<T>);
}

template <class T, class Number>
void interactions_of(const ShapleyRow<T>& row, void* memory, double* out) {
    const std::size_t d = row.n_players, k = row.n_outputs;
    Room<T, Number> room(memory, d, k);
    for (std::size_t i = 0; i < d * d * k; ++i) out[i] = 0;
    for (std::size_t c = 0; c < row.n_centres; c += kTogether<T>) {
        room.take_centres(row, c, row.n_centres - c);
        for (std::size_t i = 0; i + 1 < d; ++i) {
            room.integrate(row, i);
            for (std::size_t j = i + 1; j < d; ++j) {
                const Number part = room.change[i] * (room.change[j] * room.integral[j]);
                for (std::size_t o = 0; o < k; ++o) {
                    double sums[lanes<T>] = {};
                    add_to(sums, real_product(part, room.coef[o]));
                    out[(i * d + j) * k + o] += joined<T>(sums);
                }
            }
        }
    }
    for (std::size_t i = 0; i < d; ++i)
        for (std::size_t j = 0; j < i; ++j)
            for (std::size_t o = 0; o < k; ++o) out[(i * d + j) * k + o] = out[(j * d + i) * k + o];
}

template <class T>
std::size_t room_of(std::size_t n_players, std::size_t n_outputs, bool is_complex) {
    return is_complex ? Room<T, Complex<T>>::bytes(n_players, n_outputs)
                      : Room<T, Real<T>>::bytes(n_players, n_outputs);
}
template <class T>
void shapley_values_of(const ShapleyRow<T>& row, void* room, double* out) {
    row.is_complex ? values_of<T, Complex<T>>(row, room, out)
                   : values_of<T, Real<T>>(row, room, out);
}
template <class T>
void shapley_interactions_of(const ShapleyRow<T>& row, void* room, double* out) {
    row.is_complex ? interactions_of<T, Complex<T>>(row, room, out)
                   : interactions_of<T, Real<T>>(row, room, out);
}

}  // namespace

extern const AllShapleyLoops MERCER_JOIN(shapley_loops_, MERCER_LEVEL);
const AllShapleyLoops MERCER_JOIN(shapley_loops_, MERCER_LEVEL) = {
    {room_of<float>, shapley_values_of<float>, shapley_interactions_of<float>},
    {room_of<double>, shapley_values_of<double>, shapley_interactions_of<double>},
};

}  // namespace mercer
