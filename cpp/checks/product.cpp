// The part of check.cpp that is about products of kernels that are not held, and Gram matrices.
#include "distance_sums.hpp"
#include "fixed_kernel.hpp"
#include "gram.hpp"
#include "held_product.hpp"
#include "kernel_product.hpp"
#include "random.hpp"

#include <array>
#include <cmath>

using namespace mercer;

namespace {

template <class T>
std::vector<T> uniform(std::uint64_t key, std::size_t size) {
    std::vector<double> numbers(size);
    random_fill(key, 2, 0, size, to_open_unit_interval, numbers.data());
    return {numbers.begin(), numbers.end()};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

// Both products with the entries that kernel_block makes, against those that are not held.
template <class In, class S>
bool products_are_right(std::size_t n, std::size_t m, std::size_t d, std::size_t k,
                        KernelKind kind) {
    const auto X = uniform<In>(1, n * d), Y = uniform<In>(2, m * d);
    const auto w = uniform<S>(3, m * k), v = uniform<S>(4, n * k);
    const std::vector<double> centre(d, 0.5), scale(d, 1 / std::sqrt(static_cast<double>(d)));
    const auto work = [&](const std::vector<In>& x, const std::vector<In>& y, In* out) {
        return KernelWork<In>{kind, x.data(),      y.data(),     x.size() / d, y.size() / d,
                              d,    centre.data(), scale.data(), 2.5,          out};
    };
    std::vector<In> K(n * m), own(n * n);
    bool right = kernel_block(work(X, Y, K.data()), Accuracy::full, 3) &&
                 kernel_block(work(X, X, own.data()), Accuracy::full, 3);
    std::vector<double> points(n * k), landmarks(m * k), alike(n * k);
    std::vector<double> of_points(n * k), of_landmarks(m * k), of_alike(n * k);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < k; ++c) {
            for (std::size_t j = 0; j < m; ++j) {
                const auto entry = static_cast<double>(K[i * m + j]);
                points[i * k + c] += entry * static_cast<double>(w[j * k + c]);
                landmarks[j * k + c] += entry * static_cast<double>(v[i * k + c]);
            }
            for (std::size_t j = 0; j < n; ++j)
                alike[i * k + c] +=
                    static_cast<double>(own[i * n + j]) * static_cast<double>(v[j * k + c]);
        }
    right = right && kernel_product<In, S>({work(X, Y, nullptr), k, w.data(), of_points.data(),
                                            v.data(), of_landmarks.data(), false},
                                           Accuracy::full, 3);
    right = right && kernel_product<In, S>({work(X, X, nullptr), k, v.data(), of_alike.data(),
                                            nullptr, nullptr, true},
                                           Accuracy::full, 3);
    std::vector<double> one_way(n * k);
    right = right && kernel_product<In, S>({work(X, Y, nullptr), k, w.data(), one_way.data(),
                                            nullptr, nullptr, false},
                                           Accuracy::single, 3);
    const double tolerance = static_cast<double>(n + m) * (sizeof(In) == 4 ? 1e-6 : 1e-12);
    return right && largest_difference(points, of_points) < tolerance &&
           largest_difference(points, one_way) < 10 * tolerance &&
           largest_difference(landmarks, of_landmarks) < tolerance &&
           largest_difference(alike, of_alike) < tolerance;
}

template <class T>
bool distance_sums_are_right(std::size_t n, std::size_t d) {
    auto weights = uniform<T>(7, n * n);
    const auto columns = uniform<T>(8, d * n);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < i; ++j) weights[i * n + j] = weights[j * n + i];
    std::vector<double> exact(d), out(d);
    for (std::size_t a = 0; a < d; ++a)
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j)
                exact[a] += static_cast<double>(weights[i * n + j]) *
                            std::abs(static_cast<double>(columns[a * n + i]) -
                                     static_cast<double>(columns[a * n + j]));
    distance_sums(weights.data(), columns.data(), n, d, out.data(), 3);
    return largest_difference(exact, out) <
           static_cast<double>(n * n) * (sizeof(T) == 4 ? 1e-6 : 1e-14);
}

template <class T>
bool grams_are_right(std::size_t n, std::size_t d, bool transposed) {
    const auto Z = uniform<T>(5, n * d);
    const auto weights = uniform<double>(6, n);
    std::vector<double> exact(d * d), out(d * d);
    for (std::size_t row = 0; row < n; ++row)
        for (std::size_t i = 0; i < d; ++i)
            for (std::size_t j = 0; j < d; ++j) {
                const auto at = [&](std::size_t column) {
                    return static_cast<double>(transposed ? Z[column * n + row]
                                                          : Z[row * d + column]);
                };
                exact[i * d + j] += weights[row] * at(i) * at(j);
            }
    gram<T>({Z.data(), n, d, transposed, weights.data(), out.data()}, 3);
    return largest_difference(exact, out) <
           static_cast<double>(n) * (sizeof(T) == 4 ? 1e-6 : 1e-13);
}

// The matrix in 16 or 31 bits an entry, against its entries.
template <class T>
bool fixed_products_are_right(std::size_t n, std::size_t d, std::size_t k, KernelKind kind) {
    const auto X = uniform<T>(1, n * d), w = uniform<T>(3, n * k);
    const std::vector<double> centre(d, 0.5), scale(d, 1.0);
    std::vector<T> K(n * n);
    KernelWork<T> work{kind, X.data(),      X.data(),     n,   n,
                       d,    centre.data(), scale.data(), 2.5, K.data()};
    std::vector<Fixed<T>> fixed(fixed_size(n));
    std::vector<double> expected(n * k), out(n * k);
    if (!kernel_block(work, Accuracy::single, 3) || !fixed_kernel(work, fixed.data(), 3))
        return false;
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
            for (std::size_t c = 0; c < k; ++c)
                expected[i * k + c] +=
                    static_cast<double>(K[i * n + j]) * static_cast<double>(w[j * k + c]);
    fixed_product<T>({fixed.data(), n, k, w.data(), out.data()}, 3);
    return largest_difference(expected, out) <
           static_cast<double>(n) * (sizeof(T) == 4 ? 3e-5 : 1e-9);
}

// Several square matrices, each with weights of its own.
bool held_blocks_are_right(std::size_t count, std::size_t side, std::size_t k) {
    const auto matrices = uniform<float>(7, count * side * side);
    const auto w = uniform<double>(8, count * k * side);
    std::vector<double> expected(count * side * k), out(count * side * k);
    for (std::size_t row = 0; row < count * side; ++row)
        for (std::size_t c = 0; c < k; ++c)
            for (std::size_t j = 0; j < side; ++j)
                expected[row * k + c] += static_cast<double>(matrices[row * side + j]) *
                                         w[(row / side * k + c) * side + j];
    held_blocks({matrices.data(), count, side, k, w.data(), out.data()}, 3);
    return largest_difference(expected, out) < static_cast<double>(side) * 1e-13;
}

// By rows and by columns, against plain sums.
bool held_products_are_right(std::size_t n, std::size_t p, std::size_t k) {
    const auto matrix = uniform<float>(7, n * p);
    const auto w = uniform<double>(8, k * p), v = uniform<double>(9, n * k);
    std::vector<double> by_rows(n * k), of_rows(n * k), by_columns(k * p), of_columns(k * p);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < p; ++j)
            for (std::size_t c = 0; c < k; ++c) {
                const auto entry = static_cast<double>(matrix[i * p + j]);
                by_rows[i * k + c] += entry * w[c * p + j];
                by_columns[c * p + j] += entry * v[i * k + c];
            }
    const std::vector<float> narrow(w.begin(), w.end());
    std::vector<double> in_f32(n * k);
    held_product<double>({matrix.data(), n, p, k, false, w.data(), of_rows.data()}, 3);
    held_product<double>({matrix.data(), n, p, k, true, v.data(), of_columns.data()}, 3);
    held_product<float>({matrix.data(), n, p, k, false, narrow.data(), in_f32.data()}, 3);
    const double tolerance = static_cast<double>(n + p) * 1e-13;
    return largest_difference(by_rows, of_rows) < tolerance &&
           largest_difference(by_rows, in_f32) < static_cast<double>(n + p) * 1e-6 &&
           largest_difference(by_columns, of_columns) < tolerance;
}

}  // namespace

bool products_not_held_are_right() {
    bool right = true;
    for (auto kind : {KernelKind::gaussian, KernelKind::laplacian, KernelKind::matern_5_2})
        for (auto [n, m, d, k] :
             {std::array<std::size_t, 4>{1, 1, 1, 1}, {300, 97, 5, 3}, {1000, 130, 40, 13}}) {
            right = right && products_are_right<float, float>(n, m, d, k, kind) &&
                    products_are_right<float, double>(n, m, d, k, kind) &&
                    products_are_right<double, double>(n, m, d, k, kind);
        }
    for (auto [n, p, k] : {std::array<std::size_t, 3>{1, 1, 1}, {67, 1030, 9}, {200, 2100, 3}})
        right =
            right && held_products_are_right(n, p, k) && held_blocks_are_right(k, n, 1 + p / 300);
    for (auto kind : {KernelKind::gaussian, KernelKind::laplacian, KernelKind::cauchy})
        for (auto [n, d, k] : {std::array<std::size_t, 3>{1, 1, 1}, {300, 5, 3}, {1000, 40, 13}})
            right = right && fixed_products_are_right<float>(n, d, k, kind) &&
                    fixed_products_are_right<double>(n, d, k, kind);
    for (bool transposed : {false, true})
        right = right && grams_are_right<float>(1100, 97, transposed) &&
                grams_are_right<double>(300, 130, transposed) && grams_are_right<float>(3, 1, true);
    right =
        right && distance_sums_are_right<float>(131, 5) && distance_sums_are_right<double>(70, 3);
    return right;
}
