// A self-check of the core without Python, meant for the sanitizer builds of CMakePresets.json:
// every loop runs with several threads and is compared with the plainest code that does the same.
#include "binning.hpp"
#include "cosine.hpp"
#include "kernel_block.hpp"
#include "products.hpp"
#include "random.hpp"
#include "responses.hpp"

#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

using namespace mercer;

namespace {

int failures = 0;

void expect(bool holds, const std::string& what) {
    if (holds) return;
    ++failures;
    std::fprintf(stderr, "failed: %s\n", what.c_str());
}

std::vector<double> uniform(std::uint64_t key, std::size_t size) {
    std::vector<double> numbers(size);
    random_fill(key, 0, 0, size, to_open_unit_interval, numbers.data());
    return numbers;
}

// Parameters of grids, and data that are partly zero, partly repeated and partly huge.
struct Problem {
    Problem(std::size_t n_, std::size_t d_, std::size_t n_grids)
        : n(n_), d(d_), inverse_widths(uniform(1, n_grids * d)), shifts(uniform(2, n_grids * d)),
          multipliers(n_grids * d), data(uniform(3, n * d)) {
        for (double& width : inverse_widths) width = 0.1 / width;
        random_fill(
            4, 0, 0, n_grids * d, [](std::uint64_t bits) { return bits; }, multipliers.data());
        for (std::size_t i = 0; i < n * d; ++i)
            data[i] = data[i] < 0.4 ? 0.0 : i % 3 ? std::round(data[i] * 20 - 10) : data[i] * 8 - 4;
        for (std::size_t i = 5; i < n * d; i += 1001) data[i] = i % 2 ? 1e308 : -1e308;
        grids = {inverse_widths.data(), shifts.data(), multipliers.data(), n_grids, d};
    }

    std::uint64_t key(std::size_t g, const double* row) const {
        std::uint64_t sum = 0;
        for (std::size_t j = 0; j < d; ++j) {
            const double code = code_of(row[j], inverse_widths[g * d + j], shifts[g * d + j]);
            const auto factor = static_cast<std::uint32_t>(static_cast<std::int64_t>(code));
            sum = add_packed(sum, multiply_packed(factor, multipliers[g * d + j]));
        }
        return sum;
    }

    std::size_t n, d;
    std::vector<double> inverse_widths, shifts;
    std::vector<std::uint64_t> multipliers;
    std::vector<double> data;
    Grids grids;
};

template <class Points>
void check_responses(std::span<const Dictionary> dictionaries, const Problem& problem,
                     const Points& points, const std::vector<std::uint32_t>& codes, int n_threads,
                     const std::string& name) {
    using T = typename Points::Number;
    constexpr std::size_t k = 3;
    std::vector<std::int64_t> offsets{0};
    for (const Dictionary& dictionary : dictionaries)
        offsets.push_back(offsets.back() + static_cast<std::int64_t>(dictionary.size()));
    const auto draws = uniform(9, static_cast<std::size_t>(offsets.back()) * k);
    const std::vector<T> w(draws.begin(), draws.end());
    const BinnedMatrix Z{
        codes.data(), sizeof(std::uint32_t), offsets.data(), dictionaries.size(), problem.n, false};
    std::vector<T> expected(problem.n * k), out(problem.n * k);
    matvec(Z, w.data(), k, expected.data(), 1.0, n_threads);
    const std::size_t unknown = add_responses(dictionaries, offsets.data(), points, problem.grids,
                                              0, w.data(), k, out.data(), n_threads);
    expect(unknown == 0 && out == expected, name + ": responses without codes");
}

template <class Points>
void check_codes(const Problem& problem, const Points& points, const std::string& name) {
    const std::size_t n = problem.n, n_grids = problem.grids.count;
    std::vector<std::uint32_t> expected(n_grids * n);
    std::vector<double> row(problem.d);
    for (std::size_t g = 0; g < n_grids; ++g) {
        std::map<std::uint64_t, std::uint32_t> numbers;
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = 0; j < problem.d; ++j)
                row[j] = static_cast<double>(
                    static_cast<typename Points::Number>(problem.data[i * problem.d + j]));
            const auto next = static_cast<std::uint32_t>(numbers.size());
            expected[g * n + i] = numbers.emplace(problem.key(g, row.data()), next).first->second;
        }
    }
    for (int n_threads : {1, 3}) {
        std::vector<Dictionary> dictionaries(n_grids);
        std::vector<std::uint32_t> codes(n_grids * n);
        const bool fits =
            insert_codes(std::span(dictionaries), points, problem.grids, codes.data(), n_threads);
        expect(fits && codes == expected, name + ": inserted codes");
        std::fill(codes.begin(), codes.end(), 0);
        const std::size_t unknown = lookup_codes(std::span<const Dictionary>(dictionaries), points,
                                                 problem.grids, codes.data(), n_threads);
        expect(unknown == 0 && codes == expected, name + ": codes looked up");
        std::vector<Dictionary> empty(n_grids);
        expect(lookup_codes(std::span<const Dictionary>(empty), points, problem.grids, codes.data(),
                            n_threads) == n * n_grids,
               name + ": unknown codes");
        check_responses(std::span<const Dictionary>(dictionaries), problem, points, expected,
                        n_threads, name);
        std::vector<std::uint8_t> narrow(n_grids * n);
        hash_codes(points, problem.grids, 100, narrow.data(), n_threads);
        expect(std::all_of(narrow.begin(), narrow.end(), [](auto code) { return code < 100; }),
               name + ": hashed codes");
    }
}

template <class T>
void check_binning(std::size_t n, std::size_t d, std::size_t n_grids) {
    Problem problem(n, d, n_grids);
    const double largest = sizeof(T) == 4 ? 3e38 : 1e308;
    for (double& x : problem.data) x = std::clamp(x, -largest, largest);
    const std::vector<T> dense(problem.data.begin(), problem.data.end());
    check_codes(problem, DensePoints<T>{dense.data(), n, d}, "dense");
    std::vector<T> values;
    std::vector<std::int32_t> inputs, starts{0};
    for (std::size_t i = 0; i < n * d; ++i) {
        if (dense[i] != T(0)) {
            values.push_back(dense[i]);
            inputs.push_back(static_cast<std::int32_t>(i % d));
        }
        if ((i + 1) % d == 0) starts.push_back(static_cast<std::int32_t>(values.size()));
    }
    check_codes(problem,
                SparsePoints<T, std::int32_t>{values.data(), inputs.data(), starts.data(), n, d},
                "sparse");
}

template <class Code, class T>
void check_products(std::size_t n, std::size_t n_grids, std::size_t k, bool missing) {
    constexpr std::size_t bins = 37;
    std::vector<std::int64_t> offsets(n_grids + 1);
    for (std::size_t g = 0; g <= n_grids; ++g) offsets[g] = static_cast<std::int64_t>(g * bins);
    std::vector<Code> codes(n_grids * n);
    const auto draws = uniform(5, codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<Code>(draws[i] * static_cast<double>(bins + (missing ? 3 : 0)));
    const BinnedMatrix Z{codes.data(), sizeof(Code), offsets.data(), n_grids, n, missing};
    const auto w_ = uniform(6, n_grids * bins * k), v_ = uniform(7, n * k);
    const std::vector<T> w(w_.begin(), w_.end()), v(v_.begin(), v_.end());
    std::vector<double> Zw(n * k), Zv(n_grids * bins * k), ZZv(n * k);
    const auto for_each_entry = [&](auto f) {
        for (std::size_t g = 0; g < n_grids; ++g)
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t q = 0; q < k; ++q)
                    if (codes[g * n + i] < bins)
                        f(i * k + q, (g * bins + codes[g * n + i]) * k + q);
    };
    for_each_entry([&](std::size_t i, std::size_t c) { Zw[i] += 0.5 * static_cast<double>(w[c]); });
    for_each_entry([&](std::size_t i, std::size_t c) { Zv[c] += 0.5 * static_cast<double>(v[i]); });
    for_each_entry([&](std::size_t i, std::size_t c) { ZZv[i] += 0.5 * Zv[c]; });
    const auto close = [](const std::vector<T>& a, const std::vector<double>& b) {
        bool all = true;
        for (std::size_t i = 0; i < a.size(); ++i)
            all = all && std::abs(static_cast<double>(a[i]) - b[i]) <=
                             (sizeof(T) == 4 ? 1e-4 : 1e-12) * (1 + std::abs(b[i]));
        return all;
    };
    for (int n_threads : {1, 3}) {
        std::vector<T> rows(n * k), columns(n_grids * bins * k);
        matvec(Z, w.data(), k, rows.data(), 0.5, n_threads);
        expect(close(rows, Zw), "matvec");
        rmatvec(Z, v.data(), k, columns.data(), 0.5, n_threads);
        expect(close(columns, Zv), "rmatvec");
        gram_matvec(Z, v.data(), k, rows.data(), 0.25, n_threads);
        expect(close(rows, ZZv), "gram_matvec");
    }
}

template <class T>
void check_cosines(std::size_t n, std::size_t d, std::size_t m) {
    const auto X_ = uniform(8, n * d), F_ = uniform(9, m * d), b_ = uniform(10, m);
    const std::vector<T> X(X_.begin(), X_.end()), F(F_.begin(), F_.end()), b(b_.begin(), b_.end());
    const double tolerance = (sizeof(T) == 4 ? 1e-6 : 1e-14) * (1 + 0.1 * static_cast<double>(d));
    std::vector<T> block(n * m), pairs(2 * n * m);
    cosine_block<T>({X.data(), F.data(), b.data(), n, d, m, T(0.5), block.data()}, 3);
    cosine_block<T>({X.data(), F.data(), nullptr, n, d, m, T(0.5), pairs.data()}, 3);
    const auto weights = uniform(11, 2 * m);
    std::vector<double> sums(2 * n);
    cosine_product<T>({X.data(), F.data(), b.data(), n, d, m, T(0.5), nullptr}, weights.data(), 2,
                      sums.data(), 3);
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < m; ++j) {
            double x = 0;
            for (std::size_t k = 0; k < d; ++k)
                x += static_cast<double>(X[i * d + k]) * static_cast<double>(F[j * d + k]);
            const double phased = 0.5 * std::cos(x + static_cast<double>(b[j]));
            const std::size_t at = i * m + j;
            worst =
                std::max({worst, std::abs(static_cast<double>(block[at]) - phased),
                          std::abs(static_cast<double>(pairs[2 * at]) - 0.5 * std::cos(x)),
                          std::abs(static_cast<double>(pairs[2 * at + 1]) - 0.5 * std::sin(x))});
            for (std::size_t c = 0; c < 2; ++c)
                sums[2 * i + c] -= static_cast<double>(block[at]) * weights[2 * j + c];
        }
        worst = std::max({worst, std::abs(sums[2 * i]), std::abs(sums[2 * i + 1])});
    }
    expect(worst < tolerance, "cosines");
}

double kernel_of(KernelKind kind, double square, double apart, double product) {
    const double root = std::sqrt(square), r_3 = std::sqrt(3.0) * root, r_5 = std::sqrt(5.0) * root;
    switch (kind) {
    case KernelKind::sqeuclidean: return square;
    case KernelKind::gaussian: return std::exp(-square);
    case KernelKind::exponential: return std::exp(-root);
    case KernelKind::matern_3_2: return (1 + r_3) * std::exp(-r_3);
    case KernelKind::matern_5_2: return (1 + r_5 + r_5 * r_5 / 3) * std::exp(-r_5);
    case KernelKind::rational: return 1 / (1 + square);
    case KernelKind::rational_power: return std::pow(1 + square / 2.5, -2.5);
    case KernelKind::cityblock: return apart;
    case KernelKind::laplacian: return std::exp(-apart);
    default: return 1 / product;
    }
}

template <class T>
void check_kernels(std::size_t n, std::size_t d, std::size_t m, double spread) {
    const auto X_ = uniform(11, n * d), Y_ = uniform(12, m * d);
    const std::vector<T> X(X_.begin(), X_.end());
    std::vector<T> Y(Y_.begin(), Y_.end()), out(n * m);
    std::copy(X.begin(), X.begin() + static_cast<std::ptrdiff_t>(d), Y.begin());  // equal rows
    const std::vector<double> centre(d, 0.5), scale(d, spread / std::sqrt(static_cast<double>(d)));
    for (int kind = 0; kind <= static_cast<int>(KernelKind::cauchy); ++kind) {
        const auto named = static_cast<KernelKind>(kind);
        expect(kernel_block<T>({named, X.data(), Y.data(), n, m, d, centre.data(), scale.data(),
                                2.5, out.data()},
                               Accuracy::full, 3),
               "kernels of ordinary rows");
        double worst = 0;
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < m; ++j) {
                double square = 0, apart = 0, product = 1;
                for (std::size_t k = 0; k < d; ++k) {
                    const double t = std::abs(static_cast<double>(X[i * d + k]) -
                                              static_cast<double>(Y[j * d + k])) *
                                     scale[k];
                    square += t * t;
                    apart += t;
                    product *= 1 + t * t;
                }
                const double exact = kernel_of(named, square, apart, product);
                worst = std::max(worst, std::abs(static_cast<double>(out[i * m + j]) - exact) /
                                            std::max(1.0, exact));
            }
        expect(worst < (sizeof(T) == 4 ? 1e-6 : 1e-11), "kernel " + std::to_string(kind));
    }
}

void check_parallel() {
    std::atomic<int> sum{0};
    parallel_for(1000, 4, [&](std::size_t i, int) { sum += static_cast<int>(i); });
    expect(sum == 499500, "every item once");
    bool caught = false;
    try {
        parallel_for(1000, 4, [](std::size_t i, int) {
            if (i == 500) throw std::runtime_error("item 500");
        });
    } catch (const std::runtime_error& error) {
        caught = std::string(error.what()) == "item 500";
    }
    expect(caught, "exceptions reach the caller");
}

}  // namespace

bool async_steps_are_right();          // check_svrg.cpp
bool descent_is_right();               // check_descent.cpp
bool dual_machines_are_right();        // check_dual.cpp
bool hadamard_transforms_are_right();  // check_hadamard.cpp
bool hashed_texts_are_right();         // check_sparse.cpp
bool sparse_rows_are_right();          // check_sparse.cpp
bool leaves_are_right();               // check_leaves.cpp
bool partitions_are_right();           // check_partition.cpp
bool products_not_held_are_right();    // check_product.cpp
bool shapley_values_are_right();       // check_shapley.cpp

// With an argument only says whether the processor has the level that MERCER_ISA names.
int main(int count, char**) {
    try {
        choose_level();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
    if (count > 1) return 0;
    check_parallel();
    expect(shapley_values_are_right(), "Shapley values");
    expect(async_steps_are_right(), "asynchronous steps");
    expect(descent_is_right(), "coordinate descent");
    expect(dual_machines_are_right(), "dual kernel machines");
    expect(leaves_are_right(), "leaves");
    expect(partitions_are_right(), "trees of cuts");
    expect(products_not_held_are_right(), "products of kernels that are not held");
    expect(hadamard_transforms_are_right(), "Walsh-Hadamard transforms");
    expect(sparse_rows_are_right(), "kernel rows of sparse data");
    expect(hashed_texts_are_right(), "hashed texts");
    for (auto [n, d, n_grids] : {std::array<std::size_t, 3>{1, 1, 1},
                                 {9, 3, 2},
                                 {300, 1, 40},
                                 {5000, 7, 19},
                                 {2500, 30, 5}}) {
        check_binning<float>(n, d, n_grids);
        check_binning<double>(n, d, n_grids);
    }
    for (bool missing : {false, true})
        for (std::size_t k : {1, 3, 10, 26}) {
            check_products<std::uint8_t, float>(3000, 27, k, missing);
            check_products<std::uint16_t, double>(3000, 6, k, missing);
            check_products<std::uint32_t, float>(7, 1, k, missing);
        }
    for (std::size_t d : {1, 30, 700}) {
        check_cosines<float>(150, d, 70);
        check_cosines<double>(150, d, 70);
        for (double spread : {1.0, 10.0, 30.0}) {
            check_kernels<float>(150, d, 70, spread);
            check_kernels<double>(150, d, 70, spread);
        }
    }
    std::fprintf(stderr, failures ? "%d checks failed\n" : "all checks passed\n", failures);
    return failures != 0;
}
