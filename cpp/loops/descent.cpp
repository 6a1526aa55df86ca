// Loops of coordinate descent, compiled once per instruction-set level with contraction of a*b+c
// allowed, into a table and nothing else: the only symbol of this file.
#include "descent_loops.hpp"
#include "simd.hpp"

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

MERCER_INLINE Vector<double> widened(const float* p) {
    return widen(p);
}
MERCER_INLINE Vector<double> widened(const double* p) {
    return load(p);
}

MERCER_INLINE double sum_of(Vector<double> v) {
    double lane[lanes<double>], sum = 0.0;
    store(lane, v);
    for (double x : lane) sum += x;
    return sum;
}

template <class T>
double dense_slope(const T* column, const double* slope, std::size_t n) {
    constexpr std::size_t step = lanes<double>;
    Vector<double> sum[4] = {};
    std::size_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step)
        for (std::size_t v = 0; v < 4; ++v)
            sum[v] += widened(column + i + v * step) * load(slope + i + v * step);
    double rest = 0.0;
    for (; i < n; ++i) rest += static_cast<double>(column[i]) * slope[i];
    return rest + sum_of((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <class T>
void dense_move(const T* column, const double* curvature, double step, double* slope,
                std::size_t n) {
    constexpr std::size_t width = lanes<double>;
    const Vector<double> by = broadcast(step);
    std::size_t i = 0;
    for (; i + width <= n; i += width) {
        Vector<double> change = by * widened(column + i);
        if (curvature) change = change * load(curvature + i);
        store(slope + i, load(slope + i) + change);
    }
    for (; i < n; ++i)
        slope[i] += step * static_cast<double>(column[i]) * (curvature ? curvature[i] : 1.0);
}

template <class T>
double sparse_slope(const std::uint32_t* rows, const T* values, const double* slope,
                    std::size_t count) {
    double sum[4] = {};
    const auto term = [&](std::size_t k) MERCER_INLINE_BODY {
        return values ? static_cast<double>(values[k]) * slope[rows[k]] : slope[rows[k]];
    };
    std::size_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (std::size_t v = 0; v < 4; ++v) sum[v] += term(k + v);
    for (; k < count; ++k) sum[0] += term(k);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class T>
void sparse_move(const std::uint32_t* rows, const T* values, const double* curvature, double step,
                 double* slope, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
        const std::uint32_t i = rows[k];
        double change = step;
        if (values) change *= static_cast<double>(values[k]);
        if (curvature) change *= curvature[i];
        slope[i] += change;
    }
}

double sweep_gram(const double* hessian, std::size_t p, const double* l1, const double* l2,
                  double* w, double* gradient) {
    double largest = 0.0;
    for (std::size_t j = 0; j < p; ++j) {
        const double diagonal = hessian[j * p + j] + l2[j];
        if (!(diagonal > 0.0)) continue;
        const double target = diagonal * w[j] - (gradient[j] + l2[j] * w[j]);
        const double shrunk = target > l1[j]    ? target - l1[j]
                              : target < -l1[j] ? target + l1[j]
                                                : 0.0;
        const double change = shrunk / diagonal - w[j];
        if (change == 0.0) continue;
        w[j] = shrunk / diagonal;
        const double moved = (change < 0.0 ? -change : change) * diagonal;
        largest = moved > largest ? moved : largest;
        dense_move<double>(hessian + j * p, nullptr, change, gradient, p);
    }
    return largest;
}

void row_products(const std::int64_t* starts, const std::uint32_t* columns, const double* values,
                  const double* curvature, std::size_t n, const double* x, double* moves,
                  double* product) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t* at = columns + starts[i];
        const double* weights = values ? values + starts[i] : nullptr;
        const auto count = static_cast<std::size_t>(starts[i + 1] - starts[i]);
        moves[i] = sparse_slope(at, weights, x, count);
        sparse_move(at, weights, nullptr, curvature ? curvature[i] * moves[i] : moves[i], product,
                    count);
    }
}

template <class T>
constexpr ColumnLoops<T> columns = {dense_slope<T>, dense_move<T>, sparse_slope<T>, sparse_move<T>};

}  // namespace

extern const DescentLoops MERCER_JOIN(descent_loops_, MERCER_LEVEL);
const DescentLoops MERCER_JOIN(descent_loops_, MERCER_LEVEL) = {columns<float>, columns<double>,
                                                                sweep_gram, row_products};

}  // namespace mercer
