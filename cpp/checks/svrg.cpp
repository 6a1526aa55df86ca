// Part of the self-check: asynchronous steps, on every view of a design and by several threads.
#include "svrg.hpp"

#include <cstring>

using namespace mercer;

namespace {

std::vector<double> uniform(std::uint64_t key, std::size_t size) {
    std::vector<double> numbers(size);
    random_fill(key, 0, 0, size, to_open_unit_interval, numbers.data());
    return numbers;
}

// n rows of codes in R grids of n_bins bins (a code may be beyond them), in all other forms, too.
template <class T>
struct Designs {
    static constexpr std::size_t n_bins = 9;

    Designs(std::size_t n_, std::size_t n_grids)
        : n(n_), p(n_grids * n_bins), dense(n * p), columns(n * p), codes(n * n_grids) {
        const auto draws = uniform(1, n * n_grids);
        for (std::size_t k = 0; k < codes.size(); ++k)
            codes[k] = static_cast<std::uint8_t>(draws[k] * (n_bins + 1));
        for (std::size_t g = 0; g <= n_grids; ++g)
            offsets.push_back(static_cast<std::int64_t>(g * n_bins));
        row_starts.push_back(0);
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t g = 0; g < n_grids; ++g) {
                const std::size_t code = codes[i * n_grids + g], j = g * n_bins + code;
                if (code >= n_bins) continue;
                dense[i * p + j] = columns[j * n + i] = T(0.5);
                entries.push_back(static_cast<std::int32_t>(j));
            }
            row_starts.push_back(static_cast<std::int64_t>(entries.size()));
        }
        values.assign(entries.size(), T(0.5));
        starts.push_back(0);
        for (std::size_t j = 0; j < p; ++j) {
            for (std::size_t i = 0; i < n; ++i)
                if (dense[i * p + j] != 0) rows.push_back(static_cast<std::uint32_t>(i));
            starts.push_back(static_cast<std::int64_t>(rows.size()));
        }
    }
    DenseRows<T> dense_rows() const { return {dense.data(), n, p}; }
    SparseRows<T> sparse_rows() const {
        return {values.data(), entries.data(), row_starts.data(), n, p};
    }
    CodeRows<std::uint8_t, T> code_rows() const {
        return {codes.data(), offsets.data(), 0.5, n, offsets.size() - 1, p};
    }
    ColumnArray<T> column_array() const { return {columns.data(), n, p}; }
    ColumnLists column_lists() const { return {starts.data(), rows.data(), nullptr, 0.5, n, p}; }

    std::size_t n, p;
    std::vector<T> dense, columns, values;
    std::vector<std::uint8_t> codes;
    std::vector<std::int64_t> offsets, row_starts, starts;
    std::vector<std::int32_t> entries;
    std::vector<std::uint32_t> rows;
};

// A logistic problem with an intercept on the design.
template <class T>
struct Task {
    explicit Task(const Designs<T>& Z_)
        : Z(Z_), q(Z.p + 1), y(uniform(2, Z.n)), weights(uniform(3, Z.n)), l1(q, 1e-3), l2(q, 1e-2),
          steps(q, 1.0) {
        for (std::size_t i = 0; i < Z.n; ++i) y[i] = y[i] < 0.3 + 0.04 * Z.codes[i] ? -1.0 : 1.0;
        for (double& weight : weights) weight = 0.5 + weight;
        bend();
        l1[Z.p] = l2[Z.p] = 0.0;
        objective = {y.data(), weights.data(), svrg_loops().slopes[2], 0.0, l1.data(), l2.data(),
                     q};
    }
    // H for rows that bend as much as the loss can.
    void bend() {
        rows.assign(Z.n, 0.0);
        hessian.assign(q * q, 0.0f);
        const auto z = [&](std::size_t i, std::size_t j) {
            return j < Z.p ? static_cast<double>(Z.dense[i * Z.p + j]) : 1.0;
        };
        for (std::size_t i = 0; i < Z.n; ++i) {
            rows[i] = 0.25 * weights[i];
            for (std::size_t j = 0; j < q; ++j)
                for (std::size_t k = 0; k < q; ++k)
                    hessian[j * q + k] +=
                        static_cast<float>(rows[i] * z(i, j) * z(i, k) / static_cast<double>(Z.n));
        }
    }
    std::vector<double> margins(const std::vector<double>& w) const {
        std::vector<double> u(Z.n, w[Z.p]);
        for (std::size_t i = 0; i < Z.n; ++i)
            for (std::size_t j = 0; j < Z.p; ++j)
                u[i] += static_cast<double>(Z.dense[i * Z.p + j]) * w[j];
        return u;
    }
    // F at w, and its gradient without the penalty.
    double value(const std::vector<double>& w, std::vector<double>& gradient) const {
        const auto u = margins(w);
        gradient.assign(q, 0.0);
        double sum = 0.0;
        for (std::size_t i = 0; i < Z.n; ++i) {
            sum += weights[i] * std::log1p(std::exp(-y[i] * u[i]));
            const double slope = weights[i] * LogisticSlope{}(u[i], y[i]);
            for (std::size_t j = 0; j < Z.p; ++j)
                gradient[j] += slope * static_cast<double>(Z.dense[i * Z.p + j]);
            gradient[Z.p] += slope;
        }
        for (double& g : gradient) g /= static_cast<double>(Z.n);
        sum /= static_cast<double>(Z.n);
        for (std::size_t j = 0; j < q; ++j)
            sum += l1[j] * std::abs(w[j]) + 0.5 * l2[j] * w[j] * w[j];
        return sum;
    }
    double value(const std::vector<double>& w) const {
        std::vector<double> gradient;
        return value(w, gradient);
    }
    // Three inner loops on a view. What F is after each of them must be less; with several threads,
    // what it is in the end: how far a loop gets then depends on which of them have a core.
    template <class Of>
    bool falls(const Of& of, Margins* kept, const Course& course, int threads,
               std::vector<double>& w, bool curved = false) const {
        const ViewOf view(of);
        w.assign(q, 0.0);
        std::vector<double> gradient, slopes(Z.n);
        const double first = value(w, gradient);
        double before = first;
        for (std::uint64_t loop = 0; loop < 3; ++loop) {
            if (kept) {
                const auto u = margins(w);
                for (std::size_t i = 0; i < Z.n; ++i) (*kept)[i] = u[i];
            }
            snapshot_slopes(view, objective, w.data(), curved ? rows.data() : nullptr,
                            slopes.data(), threads);
            const std::vector<double> anchor = w;
            const Curvature curvature{hessian.data(), rows.data(), anchor.data(), 2.0};
            Course next = course;
            next.first = loop * course.count;
            const Walked walked =
                walk(view, objective,
                     {slopes.data(), gradient.data(), steps.data(), curved ? &curvature : nullptr},
                     next, w.data(), threads);
            const double after = value(w, gradient);
            if (!walked.finite || !walked.moves) return false;
            if (threads == 1 && !(after < before)) return false;
            before = after;
        }
        return before < first;
    }

    const Designs<T>& Z;
    std::size_t q;
    std::vector<double> y, weights, l1, l2, steps, rows;
    std::vector<float> hessian;
    Objective objective;
};

// One thread ends at the same weights on every view, several threads come as far down, or nearly.
template <class T>
bool views_agree(std::size_t n, std::size_t batch, std::size_t width, bool in_support) {
    const Designs<T> Z(n, 4);
    const Task<T> task(Z);
    const ColumnLists lists = Z.column_lists();
    const ColumnArray<T> array = Z.column_array();
    const Course course{7, 24, 0, 6 * task.q, batch, width, in_support ? &lists : nullptr};
    Margins u(n);
    std::vector<double> expected, w;
    bool right = task.falls(Z.dense_rows(), nullptr, course, 1, expected);
    const double start = task.value(std::vector<double>(task.q)), end = task.value(expected);
    const double slack = sizeof(T) == 4 ? 1e-5 : 1e-11;
    const auto falls = [&](int way, int threads) {
        switch (way) {
        case 0: return task.falls(Z.dense_rows(), nullptr, course, threads, w);
        case 1: return task.falls(Z.sparse_rows(), nullptr, course, threads, w);
        case 2: return task.falls(Z.code_rows(), nullptr, course, threads, w);
        case 3:
            return task.falls(Kept<ColumnLists>(lists, u, threads == 1), &u, course, threads, w);
        default:
            return task.falls(Kept<ColumnArray<T>>(array, u, threads == 1), &u, course, threads, w);
        }
    };
    for (int threads : {1, 2, 4})
        for (int way = 0; way < 5; ++way) {
            // A thread that loses its core in the middle of a step ends it late, on a crowded
            // machine so late that little is gained: several threads may try again.
            bool enough = false;
            for (int attempt = 0; attempt < (threads == 1 ? 1 : 5) && !enough; ++attempt)
                enough = falls(way, threads) && task.value(w) < 0.3 * start + 0.7 * end;
            right = right && enough;
            for (std::size_t j = 0; right && threads == 1 && j < task.q; ++j)
                right = std::abs(w[j] - expected[j]) <= slack;
        }
    return right;
}

// Steps by blocks and their curvature get further than steps along one coordinate.
template <class T>
bool blocks_fall(std::size_t n, std::size_t width) {
    const Designs<T> Z(n, 4);
    const Task<T> task(Z);
    const Course course{7, 24, 0, 400, 16, width, nullptr};
    std::vector<double> w, plain;
    bool right = task.falls(Z.dense_rows(), nullptr, {7, 24, 0, 400, 16, 1, nullptr}, 1, plain);
    right = right && task.falls(Z.dense_rows(), nullptr, course, 1, w, true);
    right = right && task.value(w) < task.value(plain);
    const double start = task.value(std::vector<double>(task.q)), end = task.value(w);
    for (int threads : {2, 4}) {
        bool enough = false;
        for (int attempt = 0; attempt < 5 && !enough; ++attempt)
            enough = task.falls(Z.sparse_rows(), nullptr, course, threads, w, true) &&
                     task.value(w) < 0.3 * start + 0.7 * end;
        right = right && enough;
    }
    return right;
}

bool halves_are_close() {
    const std::size_t n = 67, p = 83;
    const auto numbers = uniform(5, n * p), weights = uniform(6, p);
    std::vector<Half> halves(n * p);
    for (std::size_t k = 0; k < halves.size(); ++k) {
        const auto x = static_cast<float>(numbers[k]);
        std::uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        halves[k] = {static_cast<std::uint16_t>((bits + 0x7fff) >> 16)};
    }
    const std::vector<float> w(weights.begin(), weights.end());
    std::vector<std::uint32_t> rows(n);
    for (std::size_t i = 0; i < n; ++i) rows[i] = static_cast<std::uint32_t>(n - 1 - i);
    std::vector<double> out(n);
    DenseRows<Half>{halves.data(), n, p}.responses({rows.data(), n, n}, w.data(), 0.25, out.data());
    for (std::size_t i = 0; i < n; ++i) {
        double sum = 0.25;
        for (std::size_t j = 0; j < p; ++j) sum += numbers[rows[i] * p + j] * weights[j];
        if (std::abs(out[i] - sum) > 4e-3 * sum) return false;
    }
    return true;
}

}  // namespace

bool async_steps_are_right() {
    bool right = halves_are_close();
    for (bool in_support : {false, true})
        right = right && views_agree<float>(500, 16, 1, in_support) &&
                views_agree<double>(500, 16, 1, in_support) &&
                views_agree<double>(40, 64, 1, in_support);
    right = right && blocks_fall<float>(300, 5) && blocks_fall<double>(300, 37);
    return right && views_agree<float>(300, 8, 5, false) && views_agree<double>(300, 8, 37, false);
}
