// The part of check.cpp that is about Walsh-Hadamard transforms and Fastfood.
#include "hadamard.hpp"
#include "random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

using namespace mercer;

namespace {

template <class T>
std::vector<T> uniform(std::uint64_t key, std::size_t size) {
    std::vector<double> numbers(size);
    random_fill(key, 2, 0, size, to_open_unit_interval, numbers.data());
    return std::vector<T>(numbers.begin(), numbers.end());
}

double sign(std::size_t i, std::size_t j) {
    return std::popcount(i & j) % 2 ? -1.0 : 1.0;
}

// A few entries of the products along the rows of (m, length) and the columns of (length, m).
template <class T>
bool transforms_are_right(std::size_t length, std::size_t m, int n_threads) {
    const auto a = uniform<T>(1, length * m);
    auto along_rows = a, along_columns = a;
    hadamard(along_rows.data(), m, length, n_threads);
    hadamard_columns(along_columns.data(), length, m, n_threads);
    const double tolerance = (sizeof(T) == 4 ? 1e-6 : 1e-14) * static_cast<double>(length);
    bool right = true;
    for (std::size_t entry = 0; entry < 50; ++entry) {
        const std::size_t i = entry * 7919 % m, j = entry * 104729 % length;
        double row = 0, column = 0;
        for (std::size_t k = 0; k < length; ++k) {
            row += sign(j, k) * static_cast<double>(a[i * length + k]);
            column += sign(j, k) * static_cast<double>(a[k * m + i]);
        }
        right = right &&
                std::abs(static_cast<double>(along_rows[i * length + j]) - row) <= tolerance &&
                std::abs(static_cast<double>(along_columns[j * m + i]) - column) <= tolerance;
    }
    return right;
}

template <class T>
bool fastfood_is_right(std::size_t n, std::size_t d, std::size_t length, std::size_t m) {
    const std::size_t n_blocks = (m + length - 1) / length;
    const auto X = uniform<T>(2, n * d), factors = uniform<T>(3, n_blocks * d),
               gains = uniform<T>(4, n_blocks * length), phases = uniform<T>(6, m);
    auto lengths = uniform<T>(5, m);
    for (T& number : lengths) number /= static_cast<T>(length);
    std::vector<std::uint32_t> order(n_blocks * length);
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = static_cast<std::uint32_t>((5 * i + 3) % length);
    std::vector<T> out(n * m), pairs(2 * n * m);
    for (bool phased : {false, true})
        fastfood<T>({X.data(), factors.data(), order.data(), gains.data(), lengths.data(),
                     phased ? phases.data() : nullptr, n, d, length, m, T(0.5),
                     phased ? out.data() : pairs.data()},
                    3);
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j) {
            const std::size_t b = j / length;
            double x = 0;
            for (std::size_t k = 0; k < length; ++k) {
                double inner = 0;
                for (std::size_t q = 0; q < d; ++q)
                    inner += sign(order[b * length + k], q) *
                             static_cast<double>(factors[b * d + q]) *
                             static_cast<double>(X[i * d + q]);
                x += sign(j % length, k) * static_cast<double>(gains[b * length + k]) * inner;
            }
            x *= static_cast<double>(lengths[j]);
            const std::size_t at = i * m + j;
            const double phased = 0.5 * std::cos(x + static_cast<double>(phases[j]));
            worst =
                std::max({worst, std::abs(static_cast<double>(out[at]) - phased),
                          std::abs(static_cast<double>(pairs[2 * at]) - 0.5 * std::cos(x)),
                          std::abs(static_cast<double>(pairs[2 * at + 1]) - 0.5 * std::sin(x))});
        }
    return worst < (sizeof(T) == 4 ? 1e-6 : 1e-14) * static_cast<double>(4 + length);
}

}  // namespace

bool hadamard_transforms_are_right() {
    bool right = true;
    for (std::size_t length = 1; length <= 1 << 16; length *= length < 64 ? 2 : 8)
        for (std::size_t m : {1, 3, 70}) {
            right = right && transforms_are_right<float>(length, m, 3);
            right = right && transforms_are_right<double>(length, m, 3);
        }
    for (std::size_t length : {1, 4, 64})
        for (std::size_t n : {1, 3, 70})
            right = right && fastfood_is_right<float>(n, length * 3 / 4 + length % 2, length, 90) &&
                    fastfood_is_right<double>(n, 1, length, 33);
    return right;
}
