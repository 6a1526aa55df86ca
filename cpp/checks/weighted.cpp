// The part of check.cpp that is about weighted bins and the sizes of bins.
#include "occupancy.hpp"
#include "random.hpp"
#include "weighing.hpp"
#include "weighted_products.hpp"

#include <cmath>
#include <numbers>

using namespace mercer;

namespace {

std::vector<double> uniform(std::uint64_t key, std::size_t size) {
    std::vector<double> numbers(size);
    random_fill(key, 1, 0, size, to_open_unit_interval, numbers.data());
    return numbers;
}

double window(double s, double taper) {
    const double edge = std::min(s, 1 - s);
    const double rise = edge < taper / 2 ? std::sin(std::numbers::pi * edge / taper) : 1.0;
    return rise / std::sqrt(1 - taper / 2);
}

template <class T>
bool entries_are_right(std::size_t n, std::size_t d, std::size_t count, double taper) {
    const auto X_ = uniform(1, n * d), inverse = uniform(2, count * d),
               shift = uniform(3, count * d);
    const std::vector<T> X(X_.begin(), X_.end());
    const Grids grids{inverse.data(), shift.data(), nullptr, count, d};
    std::vector<std::int32_t> inputs(n * d), starts(n + 1);  // every second number is not stored
    std::vector<T> stored, dense = X;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j)
            if ((i + j) % 2) {
                inputs[stored.size()] = static_cast<std::int32_t>(j);
                stored.push_back(X[i * d + j]);
            } else {
                dense[i * d + j] = 0;
            }
        starts[i + 1] = static_cast<std::int32_t>(stored.size());
    }
    std::vector<float> out(count * n), sparse(count * n);
    const Window g = make_window(taper);
    weigh(DensePoints<T>{dense.data(), n, d}, grids, g, 0.5, out.data(), 3);
    weigh(SparsePoints<T, std::int32_t>{stored.data(), inputs.data(), starts.data(), n, d}, grids,
          g, 0.5, sparse.data(), 3);
    bool right = true;
    for (std::size_t r = 0; r < count; ++r)
        for (std::size_t i = 0; i < n; ++i) {
            double entry = 0.5;
            for (std::size_t j = 0; j < d; ++j) {
                const std::size_t at = r * d + j;
                const double v = static_cast<double>(dense[i * d + j]) * inverse[at] - shift[at];
                entry *= window(v - std::floor(v), taper);
            }
            for (float found : {out[r * n + i], sparse[r * n + i]})
                right = right && std::abs(static_cast<double>(found) - entry) <= 1e-6 * entry;
        }
    return right;
}

template <class Code, class T>
bool products_are_right(std::size_t n, std::size_t n_grids, std::size_t k) {
    constexpr std::size_t bins = 31;  // and codes up to two more, which stand for no entry
    std::vector<std::int64_t> offsets(n_grids + 1);
    for (std::size_t g = 0; g < n_grids; ++g)
        offsets[g + 1] = offsets[g] + static_cast<std::int64_t>(g == 1 ? 0 : bins);
    const auto draws = uniform(4, n_grids * n), entries = uniform(5, n_grids * n);
    std::vector<Code> codes(draws.size());
    for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<Code>(draws[i] * (bins + 2));
    const std::vector<float> values(entries.begin(), entries.end());
    const WeightedMatrix Z{codes.data(), sizeof(Code), values.data(), offsets.data(), n_grids, n};
    const std::size_t D = Z.first_column(n_grids);
    const auto w_ = uniform(6, D * k), v_ = uniform(7, n * k);
    const std::vector<T> w(w_.begin(), w_.end()), v(v_.begin(), v_.end());
    std::vector<double> Zw(n * k), Zv(D * k), squares(D * k), ZZv(n * k), sizes(D);
    const auto for_each_entry = [&](auto f) {
        for (std::size_t g = 0; g < n_grids; ++g)
            for (std::size_t i = 0; i < n; ++i)
                if (codes[g * n + i] < Z.n_bins(g))
                    for (std::size_t q = 0; q < k; ++q)
                        f(i * k + q, (Z.first_column(g) + codes[g * n + i]) * k + q,
                          static_cast<double>(values[g * n + i]));
    };
    for_each_entry([&](std::size_t i, std::size_t c, double value) {
        Zw[i] += value * static_cast<double>(w[c]);
        Zv[c] += value * static_cast<double>(v[i]);
        squares[c] += value * value * static_cast<double>(v[i]);
        if (c % k == 0) ++sizes[c / k];
    });
    for_each_entry([&](std::size_t i, std::size_t c, double value) { ZZv[i] += value * Zv[c]; });
    const auto close = [](const std::vector<T>& a, const std::vector<double>& b) {
        bool all = true;
        for (std::size_t i = 0; i < a.size(); ++i)
            all = all && std::abs(static_cast<double>(a[i]) - b[i]) <=
                             (sizeof(T) == 4 ? 1e-4 : 1e-12) * (1 + std::abs(b[i]));
        return all;
    };
    bool right = true;
    for (int n_threads : {1, 3}) {
        std::vector<T> rows(n * k), columns(D * k);
        weighted_matvec(Z, w.data(), k, rows.data(), n_threads);
        right = right && close(rows, Zw);
        weighted_rmatvec(Z, v.data(), k, columns.data(), 1, n_threads);
        right = right && close(columns, Zv);
        weighted_rmatvec(Z, v.data(), k, columns.data(), 2, n_threads);
        right = right && close(columns, squares);
        weighted_gram_matvec(Z, v.data(), k, rows.data(), n_threads);
        right = right && close(rows, ZZv);
        const BinSizes found = bin_sizes(codes.data(), offsets.data(), n_grids, n, n_threads);
        double largest = 0, most = 0;
        for (double size : sizes) largest = std::max(largest, size);
        for (std::int64_t size : found.largest) most = std::max(most, static_cast<double>(size));
        right = right && largest == most;
    }
    return right;
}

}  // namespace

bool weighted_bins_are_right() {
    bool right = true;
    for (double taper : {0.1, 1.0})
        for (std::size_t n : {1, 300, 3000})
            right = right && entries_are_right<float>(n, 7, 19, taper) &&
                    entries_are_right<double>(n, 3, 40, taper);
    for (std::size_t k : {1, 3, 26})
        right = right && products_are_right<std::uint8_t, float>(3000, 27, k) &&
                products_are_right<std::uint16_t, double>(3000, 6, k) &&
                products_are_right<std::uint32_t, float>(7, 2, k);
    return right;
}
