// Rows most of whose numbers are the usual ones of their columns, such as zeros: the sum over
// inputs of |x - y| then has few terms beside what the sizes of both rows say.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mercer {

// With x and y less their usual numbers, |x - y| = |x| + |y| - 2 c, where c is the part of y that
// lies between 0 and x: it takes part only where x is not 0. In float32 a distance is then off by
// 1e-7 of the smaller sum of magnitudes. That shows in exp(-distance) where the sum is above this,
// times exp(distance): such a distance is made of the rows as they came.
constexpr double kLargeSum = 32.0;

// The usual number of every column of the rows y (m, d), the median of some of them; none if sums
// over all inputs take less time: if many numbers of these are others, or many distances would have
// to be made once more.
template <class In>
std::vector<double> usual_numbers(const In* y, std::size_t m, std::size_t d, const double* scale) {
    constexpr std::size_t least_inputs = 16;  // below, the profile takes most of the time
    constexpr double most_others = 0.4, most_again = 0.01;  // shares of the numbers and distances
    if (d < least_inputs || m == 0) return {};
    const std::size_t size = std::min<std::size_t>(m, 63);
    std::vector<const In*> some(size);
    for (std::size_t i = 0; i < size; ++i) some[i] = y + i * m / size * d;
    std::vector<double> usual(d), column(size);
    std::size_t others = 0;
    for (std::size_t k = 0; k < d; ++k) {
        for (std::size_t i = 0; i < size; ++i) column[i] = static_cast<double>(some[i][k]);
        const auto middle = column.begin() + static_cast<std::ptrdiff_t>(size / 2);
        std::nth_element(column.begin(), middle, column.end());
        usual[k] = *middle;
        for (double number : column) others += number != usual[k];
    }
    if (static_cast<double>(others) > most_others * static_cast<double>(size * d)) return {};
    std::size_t again = 0;
    for (std::size_t i = 0; i < size; ++i) {
        double sum = 0.0;
        for (std::size_t k = 0; k < d; ++k)
            sum += std::abs(static_cast<double>(some[i][k]) - usual[k]) * scale[k];
        if (sum <= kLargeSum) continue;
        for (std::size_t j = 0; j < size; ++j) {
            double distance = 0.0;
            for (std::size_t k = 0; k < d; ++k)
                distance +=
                    std::abs(static_cast<double>(some[i][k]) - static_cast<double>(some[j][k])) *
                    scale[k];
            again += i != j && kLargeSum * std::exp(distance) <= sum;
        }
    }
    if (static_cast<double>(again) > most_again * static_cast<double>(size * size)) return {};
    return usual;
}

// The sums of magnitudes of the rows of a panel, d groups of `width` numbers.
template <class T>
void sum_magnitudes(const T* panel, std::size_t d, std::size_t width, T* sums) {
    std::fill_n(sums, width, T(0));
    for (std::size_t k = 0; k < d; ++k)
        for (std::size_t i = 0; i < width; ++i) sums[i] += std::abs(panel[k * width + i]);
}

// Of some packed rows, the places and values of what is not zero.
template <class T>
struct NonZeros {
    std::vector<std::uint32_t> starts;  // (2 rows + 1): of what is above 0 in a row, and below
    std::vector<std::uint32_t> places;
    std::vector<T> values;

    void find(const T* panels, std::size_t rows, std::size_t d, std::size_t width) {
        starts.assign(1, 0);
        places.clear();
        values.clear();
        for (std::size_t i = 0; i < rows; ++i) {
            const T* const row = panels + i / width * width * d + i % width;
            for (const T sign : {T(1), T(-1)}) {
                for (std::size_t k = 0; k < d; ++k)
                    if (sign * row[k * width] > T(0)) {
                        places.push_back(static_cast<std::uint32_t>(k));
                        values.push_back(row[k * width]);
                    }
                starts.push_back(static_cast<std::uint32_t>(places.size()));
            }
        }
    }
};

}  // namespace mercer
