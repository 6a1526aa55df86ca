// Loops of asynchronous steps, compiled once per instruction-set level with contraction of a*b+c
// allowed, into a table and nothing else: the only symbol of this file.
#include "simd.hpp"
#include "svrg_loops.hpp"

#include <algorithm>

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

MERCER_INLINE float number(float x) {
    return x;
}
MERCER_INLINE double number(double x) {
    return x;
}
MERCER_INLINE float number(Half x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

MERCER_INLINE Vector<float> numbers(const float* p) {
    return load(p);
}
MERCER_INLINE Vector<double> numbers(const double* p) {
    return load(p);
}
MERCER_INLINE Vector<float> numbers(const Half* p) {
#if defined(__GNUC__) && !defined(MERCER_PLAIN_VECTORS)
    typedef std::uint16_t Narrow __attribute__((vector_size(MERCER_VECTOR_BYTES / 2)));
    Narrow narrow;
    std::memcpy(&narrow, p, sizeof narrow);
    return reinterpret<Vector<float>>(__builtin_convertvector(narrow, Vector<std::uint32_t>) << 16);
#else
    float wide[lanes<float>];
    for (int i = 0; i < lanes<float>; ++i) wide[i] = number(p[i]);
    return load(wide);
#endif
}

template <class T>
MERCER_INLINE void fetch(const T* p) {
#if defined(__GNUC__)
    __builtin_prefetch(p, 0, 2);
#else
    (void)p;
#endif
}

// Sum of all lanes, in pairs: one after the other they would take as long as a row of 64 numbers.
template <class W>
MERCER_INLINE double total(Vector<W> a, Vector<W> b) {
    constexpr int width = lanes<W>;
    W left[width], right[width];
    double sum[width];
    store(left, a);
    store(right, b);
    for (int i = 0; i < width; ++i)
        sum[i] = static_cast<double>(left[i]) + static_cast<double>(right[i]);
    for (int half = width / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
    return sum[0];
}

// Dots of `size` rows at once, which share the loads of w; `next` are the rows to fetch meanwhile.
// What a row gets does not depend on the rows beside it.
template <int size, class T, class W>
MERCER_INLINE void group_dots(const T* const* rows, const T* const* next, std::size_t n_next,
                              const W* w, std::size_t p, double* out) {
    constexpr std::size_t width = lanes<W>;
    constexpr std::size_t line = 64 / sizeof(T) < 2 * width ? 64 / sizeof(T) : 2 * width;
    Vector<W> even[size] = {}, odd[size] = {};
    std::size_t k = 0;
    for (; k + 2 * width <= p; k += 2 * width) {
        const Vector<W> w0 = load(w + k), w1 = load(w + k + width);
        for (std::size_t r = 0; r < n_next; ++r)
            for (std::size_t ahead = 0; ahead < 2 * width; ahead += line)
                fetch(next[r] + k + ahead);
        for (int r = 0; r < size; ++r) {
            even[r] += numbers(rows[r] + k) * w0;
            odd[r] += numbers(rows[r] + k + width) * w1;
        }
    }
    for (int r = 0; r < size; ++r) {
        double sum = total<W>(even[r], odd[r]);
        for (std::size_t rest = k; rest < p; ++rest)
            sum += static_cast<double>(number(rows[r][rest])) * static_cast<double>(w[rest]);
        out[r] = sum;
    }
}

template <class T, class W>
void row_dots(const T* const* rows, std::size_t count, std::size_t known, const W* w, std::size_t p,
              double* out) {
    constexpr std::size_t size = 4;
    // About 4 KB are on their way at a time: short rows are asked for several groups before.
    const std::size_t ahead = std::min<std::size_t>(4096 / (p * sizeof(T) + 64), 28);
    const auto after = [&](std::size_t r) MERCER_INLINE_BODY { return std::min(r + ahead, known); };
    std::size_t r = 0;
    for (; r + size <= count; r += size) {
        const std::size_t next = after(r + size);
        group_dots<size>(rows + r, rows + next, std::min(known - next, size), w, p, out + r);
    }
    for (; r < count; ++r) {
        const std::size_t next = after(r + 1);
        group_dots<1>(rows + r, rows + next, std::min<std::size_t>(known - next, 1), w, p, out + r);
    }
}

template <class T>
void add_rows(const T* const* rows, const double* factors, std::size_t count, std::size_t width,
              double* v) {
    const auto z = [&](std::size_t r, std::size_t k) MERCER_INLINE_BODY {
        return factors[r] * static_cast<double>(number(rows[r][k]));
    };
    std::size_t r = 0;
    for (; r + 4 <= count; r += 4)
        for (std::size_t k = 0; k < width; ++k)
            v[k] += (z(r, k) + z(r + 1, k)) + (z(r + 2, k) + z(r + 3, k));
    for (; r < count; ++r)
        for (std::size_t k = 0; k < width; ++k) v[k] += z(r, k);
}

void block_moves(const float* matrix, std::size_t stride, std::size_t size, double scale,
                 const double* w, const double* l1, const double* l2, double* slopes, double* by) {
    for (std::size_t j = 0; j < size; ++j) by[j] = 0.0;
    for (int sweep = 0; sweep < 2; ++sweep)
        for (std::size_t j = 0; j < size; ++j) {
            const float* row = matrix + j * stride;
            const double curvature = scale * static_cast<double>(row[j]), now = w[j] + by[j];
            if (!(curvature > 0.0)) continue;
            const double pull = curvature * now - slopes[j];
            const double left = (pull < 0.0 ? -pull : pull) - l1[j];
            const double goal = left > 0.0 ? left / (curvature + l2[j]) : 0.0;
            const double change = (pull < 0.0 ? -goal : goal) - now;
            if (change == 0.0) continue;
            by[j] += change;
            const double factor = scale * change;
            for (std::size_t k = 0; k < size; ++k)
                slopes[k] += factor * static_cast<double>(row[k]);
        }
}

template <class Slope>
void slopes_of(Slope slope, const double* u, const double* y, std::size_t n, double* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = slope(u[i], y[i]);
}
template <class Slope>
void plain_slopes(const double* u, const double* y, std::size_t n, double, double* out) {
    slopes_of(Slope{}, u, y, n, out);
}
template <class Slope>
void shaped_slopes(const double* u, const double* y, std::size_t n, double parameter, double* out) {
    slopes_of(Slope{parameter}, u, y, n, out);
}

}  // namespace

extern const SvrgLoops MERCER_JOIN(svrg_loops_, MERCER_LEVEL);
const SvrgLoops MERCER_JOIN(svrg_loops_, MERCER_LEVEL) = {
    {row_dots<float, float>, add_rows<float>},
    {row_dots<double, double>, add_rows<double>},
    {row_dots<Half, float>, add_rows<Half>},
    {plain_slopes<SquaredSlope>, shaped_slopes<HuberSlope>, plain_slopes<LogisticSlope>,
     plain_slopes<SquaredHingeSlope>, plain_slopes<SmoothHingeSlope>,
     shaped_slopes<CorrentropySlope>, plain_slopes<SigmoidSlope>},
    block_moves,
};

}  // namespace mercer
