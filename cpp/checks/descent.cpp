// Part of the self-check: bitmaps and sweeps of coordinate descent.
#include "bin_lists.hpp"
#include "bits.hpp"
#include "descent_async.hpp"
#include "face.hpp"
#include "random.hpp"

#include <cmath>

using namespace mercer;

namespace {

// n rows in R grids of n_bins bins each, the lists of their columns, and slopes.
template <class Code>
struct Bins {
    Bins(std::size_t n_, std::size_t n_grids_, std::size_t n_bins_)
        : n(n_), n_grids(n_grids_), n_bins(n_bins_), codes(n * n_grids), slope(n), h(n) {
        random_fill(1, 0, 0, n, to_open_unit_interval, slope.data());
        random_fill(2, 0, 0, n, to_open_unit_interval, h.data());
        std::vector<double> numbers(codes.size());
        random_fill(3, 0, 0, codes.size(), to_open_unit_interval, numbers.data());
        for (std::size_t k = 0; k < codes.size(); ++k)
            codes[k] = static_cast<Code>(numbers[k] * static_cast<double>(n_bins));
        for (double& g : slope) g -= 0.5;
        for (std::size_t g = 0; g <= n_grids; ++g)
            offsets.push_back(static_cast<std::int64_t>(g * n_bins));
        starts.push_back(0);
        for (std::size_t c = 0; c < p(); ++c) {
            double sum = 0.0;
            for (std::size_t i = 0; i < n; ++i)
                if (codes[c / n_bins * n + i] == c % n_bins) {
                    rows.push_back(static_cast<std::uint32_t>(i));
                    sum += h[i];
                }
            starts.push_back(static_cast<std::int64_t>(rows.size()));
            curvature.push_back(0.25 * sum / static_cast<double>(n));
        }
    }
    std::size_t p() const { return n_grids * n_bins; }

    std::size_t n, n_grids, n_bins;
    std::vector<Code> codes;
    std::vector<double> slope, h, curvature;
    std::vector<std::int64_t> offsets, starts;
    std::vector<std::uint32_t> rows;
};

template <class Code>
bool products_are_right(std::size_t n, int threads) {
    const Bins<Code> bins(n, 3, 25);
    std::vector<BinColumn> columns;
    std::vector<std::uint32_t> order;
    for (std::size_t c = 0; c < bins.p(); c += 1 + c % 2)
        columns.push_back({c / bins.n_bins, static_cast<std::uint32_t>(c % bins.n_bins)});
    for (std::size_t i = 0; i + 2 < n; ++i) order.push_back(static_cast<std::uint32_t>(n - 1 - i));
    const std::size_t p = columns.size(), stride = bit_words(order.size());
    std::vector<std::uint64_t> words(p * stride);
    pack_columns(bins.codes.data(), n, columns, order.data(), order.size(), words.data(), threads);
    std::vector<std::uint32_t> weights;
    for (std::size_t b = 0; b < stride / kBlockWords; ++b)
        weights.push_back(static_cast<std::uint32_t>(7 * b + 1));
    std::vector<double> out(p * p);
    count_shared({words.data(), words.data(), p, p, stride / kBlockWords, weights.data()}, 0.5,
                 out.data(), threads);
    for (std::size_t i = 0; i < p; ++i)
        for (std::size_t j = 0; j < p; ++j) {
            double sum = 0.0;
            for (std::size_t k = 0; k < order.size(); ++k)
                if (bins.codes[columns[i].grid * n + order[k]] == columns[i].code &&
                    bins.codes[columns[j].grid * n + order[k]] == columns[j].code)
                    sum += weights[k / kBlockRows];
            if (out[i * p + j] != 0.5 * sum) return false;
        }
    return true;
}

// Lists of columns over some rows hold the rows of the bins and no other, and both products with
// them are right.
template <class Code>
bool lists_are_right(std::size_t n, int threads) {
    const Bins<Code> bins(n, 3, 25);
    std::vector<BinColumn> columns;
    for (std::size_t c = 0; c < bins.p(); c += 1 + c % 3)
        columns.push_back({c / bins.n_bins, static_cast<std::uint32_t>(c % bins.n_bins)});
    columns.push_back({2, 300});  // beyond the codes
    std::vector<std::uint32_t> order;
    for (std::size_t i = 1; i < n; i += 2) order.push_back(static_cast<std::uint32_t>(i));
    const std::size_t p = columns.size(), n_rows = order.size();
    const BinLists<Code> lists(bins.codes.data(), n, columns, order.data(), n_rows);
    std::vector<std::int64_t> starts(p + 1);
    lists.count(starts.data(), threads);
    std::vector<std::uint32_t> rows(static_cast<std::size_t>(starts[p]));
    lists.fill(starts.data(), rows.data(), threads);
    const SparseColumns<double> Z{starts.data(), rows.data(), nullptr, 0.5, n_rows, p};
    std::vector<double> out(n_rows);
    double worst = 0.0;
    for (std::size_t k = 0; k < p; ++k) {
        double sum = 0.0;
        for (std::size_t i = 0; i < n_rows; ++i)
            if (bins.codes[columns[k].grid * n + order[i]] == columns[k].code)
                sum += 0.5 * bins.h[i];
        worst = std::max(worst, std::abs(sum - column_sum(Z, k, bins.h.data())));
        add_column(Z, k, 1.0, out.data());
    }
    for (std::size_t i = 0; i < n_rows; ++i) {
        double sum = 0.0;
        for (const BinColumn& column : columns)
            if (bins.codes[column.grid * n + order[i]] == column.code) sum += 0.5;
        worst = std::max(worst, std::abs(sum - out[i]));
    }
    return worst < 1e-9;
}

// After a face step the gradient with respect to the columns vanishes.
bool faces_are_right(std::size_t n, bool centred) {
    const Bins<std::uint8_t> bins(n, 4, 30);
    const SparseColumns<double> Z{bins.starts.data(), bins.rows.data(), nullptr, 0.5, n, bins.p()};
    std::vector<std::int64_t> at;
    std::vector<double> diagonal, slope, e(n);
    for (std::size_t k = 0; k < bins.p(); k += 3) {
        at.push_back(static_cast<std::int64_t>(k));
        diagonal.push_back(bins.curvature[k] + 0.1);
        slope.push_back(bins.slope[k % n]);
    }
    std::vector<double> step(at.size());
    const Face face{at.data(), at.size(), diagonal.data(), bins.h.data(), 0.1, centred};
    if (face_step(Z, face, slope.data(), 500, 1e-28, step.data(), e.data()) == 0) return false;
    double worst = 0.0, mean = 0.0, mass = 0.0;
    for (std::size_t i = 0; i < n && centred; ++i) mass += bins.h[i], mean += bins.h[i] * e[i];
    for (std::size_t i = 0; i < n; ++i) e[i] = bins.h[i] * (e[i] - (centred ? mean / mass : 0.0));
    for (std::size_t k = 0; k < at.size(); ++k) {
        const double product = column_sum(Z, static_cast<std::size_t>(at[k]), e.data());
        worst =
            std::max(worst, std::abs(product / static_cast<double>(n) + 0.1 * step[k] + slope[k]));
    }
    return worst < 1e-9;
}

// All ways to sweep end where one thread's sweeps over single columns end.
template <class Code>
bool sweeps_are_right(std::size_t n, int threads) {
    const Bins<Code> bins(n, 4, 30);
    const std::size_t p = bins.p();
    const std::vector<double> l1(p, 1e-4), l2(p, 1e-3);
    std::vector<std::int64_t> single(p + 1);
    for (std::size_t k = 0; k <= p; ++k) single[k] = static_cast<std::int64_t>(k);
    const SparseColumns<double> lists{bins.starts.data(), bins.rows.data(), nullptr, 0.5, n, p};
    std::vector<double> expected;
    double worst = 0.0;
    for (int way = 0; way < 3; ++way) {
        std::vector<double> w(p), slope = bins.slope;
        const Net net{l1.data(), l2.data(), bins.curvature.data(), w.data()};
        const Sweeps sweeps{way == 2 ? std::size_t{200} : std::size_t{3}, 0.0};
        if (way == 0)
            descend_columns(lists, {single.data(), p, nullptr}, net, bins.h.data(), slope.data(),
                            sweeps, 1);
        else if (way == 1)
            uncrowded(sweeps, threads, [&](Sweeps some, int on) {
                return descend_columns(lists, {bins.offsets.data(), bins.n_grids, single.data()},
                                       net, bins.h.data(), slope.data(), some, on);
            });
        else
            descend_async(lists, net, bins.h.data(), slope.data(), sweeps.count, threads);
        if (way == 0) expected = w;
        std::vector<double> moved = bins.slope;
        for (std::size_t k = 0; k < p; ++k) {
            if (way < 2) worst = std::max(worst, std::abs(w[k] - expected[k]));
            for (auto e = bins.starts[k]; e < bins.starts[k + 1]; ++e)
                moved[bins.rows[e]] += 0.5 * w[k] * bins.h[bins.rows[e]];
        }
        for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(slope[i] - moved[i]));
    }
    return worst < 1e-9;
}

}  // namespace

bool descent_is_right() {
    bool right = true;
    for (int threads : {1, 3})
        for (std::size_t n : {5, 700, 2100})
            right = right && products_are_right<std::uint8_t>(n, threads) &&
                    products_are_right<std::uint16_t>(n, threads) &&
                    products_are_right<std::uint32_t>(n, threads) &&
                    lists_are_right<std::uint8_t>(n, threads) &&
                    lists_are_right<std::uint32_t>(n, threads);
    for (bool centred : {false, true})
        right = right && faces_are_right(700, centred) && faces_are_right(5000, centred);
    for (int threads : {1, 2, 3})
        right = right && sweeps_are_right<std::uint8_t>(60'000, threads) &&
                sweeps_are_right<std::uint32_t>(300, threads);
    return right;
}
