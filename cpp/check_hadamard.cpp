// The part of check.cpp that is about Walsh-Hadamard transforms and Fastfood.
#include "hadamard.hpp"
#include "random.hpp"

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

}  // namespace

bool hadamard_transforms_are_right() {
    bool right = true;
    for (std::size_t length = 1; length <= 1 << 16; length *= length < 64 ? 2 : 8)
        for (std::size_t m : {1, 3, 70}) {
            right = right && transforms_are_right<float>(length, m, 3);
            right = right && transforms_are_right<double>(length, m, 3);
        }
    return right;
}
