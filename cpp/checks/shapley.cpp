// The part of check.cpp that is about Shapley values.
#include "shapley.hpp"
#include "random.hpp"

#include <bit>
#include <cmath>
#include <complex>

using namespace mercer;

namespace {

using Complex = std::complex<double>;

std::vector<double> uniform(std::uint64_t key, std::size_t size) {
    std::vector<double> numbers(size);
    random_fill(key, 3, 0, size, to_open_unit_interval, numbers.data());
    return numbers;
}

// Sums over all subsets of players, beside values with two nodes, which four players need.
template <class T>
bool values_are_right(std::size_t m, bool is_complex) {
    constexpr std::size_t d = 4, n = 3, k = 2;
    const std::size_t planes = is_complex ? 2 : 1;
    const auto factors_ = uniform(1, planes * d * n * m), means_ = uniform(2, planes * d * m),
               coef_ = uniform(3, planes * k * m);
    const std::vector<T> factors(factors_.begin(), factors_.end()),
        means(means_.begin(), means_.end()), coef(coef_.begin(), coef_.end());
    const double half = 0.5 / std::sqrt(3.0);
    const double nodes[] = {0.5 - half, 0.5 + half}, weights[] = {0.5, 0.5};
    const ShapleyRow<T> row{
        d,           m,     k,      2, is_complex, factors.data(), n * m, d * n * m, means.data(),
        coef.data(), nodes, weights};
    std::vector<double> values(n * (d + 1) * k), pairs(n * d * d * k);
    shapley(row, n, false, values.data(), 2);
    shapley(row, n, true, pairs.data(), 2);
    auto number = [&](const std::vector<T>& from, std::size_t at, std::size_t plane) {
        return Complex(static_cast<double>(from[at]),
                       is_complex ? static_cast<double>(from[plane + at]) : 0.0);
    };
    bool right = true;
    for (std::size_t r = 0; r < n; ++r)
        for (std::size_t o = 0; o < k; ++o) {
            double worth[1 << d];
            for (unsigned known = 0; known < 1u << d; ++known) {
                worth[known] = 0;
                for (std::size_t c = 0; c < m; ++c) {
                    Complex product = number(coef, o * m + c, k * m);
                    for (std::size_t j = 0; j < d; ++j)
                        product *= known >> j & 1 ? number(factors, (j * n + r) * m + c, d * n * m)
                                                  : number(means, j * m + c, d * m);
                    worth[known] += product.real();
                }
            }
            // s! (d - 1 - s)! / d! and s! (d - 2 - s)! / (d - 1)! for s known players
            const double share[] = {1.0 / 4, 1.0 / 12, 1.0 / 12, 1.0 / 4};
            const double pair_share[] = {1.0 / 3, 1.0 / 6, 1.0 / 3};
            double value[d] = {}, pair[d][d] = {};
            for (unsigned known = 0; known < 1u << d; ++known)
                for (unsigned j = 0; j < d; ++j) {
                    if (known >> j & 1) continue;
                    const unsigned with_j = known | 1u << j;
                    value[j] += share[std::popcount(known)] * (worth[with_j] - worth[known]);
                    for (unsigned i = 0; i < d; ++i) {
                        if (with_j >> i & 1) continue;
                        pair[j][i] += pair_share[std::popcount(known)] *
                                      (worth[with_j | 1u << i] - worth[known | 1u << i] -
                                       worth[with_j] + worth[known]);
                    }
                }
            const double tolerance = (sizeof(T) == 4 ? 1e-6 : 1e-14) * static_cast<double>(m + 9);
            auto near = [&](double found, double expected) {
                return std::abs(found - expected) <= tolerance;
            };
            for (std::size_t j = 0; j < d; ++j) {
                right = right && near(values[(r * (d + 1) + j) * k + o], value[j]);
                for (std::size_t i = 0; i < d; ++i)
                    right = right && near(pairs[((r * d + j) * d + i) * k + o], pair[j][i]);
            }
            right = right && near(values[(r * (d + 1) + d) * k + o], worth[(1 << d) - 1]);
        }
    return right;
}

}  // namespace

bool shapley_values_are_right() {
    bool right = true;
    for (std::size_t m : {1, 7, 32, 131})
        for (bool is_complex : {false, true})
            right = right && values_are_right<float>(m, is_complex) &&
                    values_are_right<double>(m, is_complex);
    return right;
}
