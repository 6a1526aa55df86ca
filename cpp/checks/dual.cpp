// Part of the self-check: kernel rows, their cache, and both ways to solve dual kernel machines.
#include "greedy.hpp"
#include "pairs.hpp"
#include "random.hpp"

#include <cmath>

using namespace mercer;

namespace {

// A support vector machine on points of the unit square, with the kernel matrix in full.
template <class In, class Row>
struct Machine {
    explicit Machine(std::size_t n_)
        : n(n_), X(2 * n), linear(n), lower(n), upper(n), extra(n), curvature(n), b(n), sums(n),
          K(n * n) {
        std::vector<double> numbers(2 * n);
        random_fill(1, 0, 0, numbers.size(), to_open_unit_interval, numbers.data());
        std::copy(numbers.begin(), numbers.end(), X.begin());
        for (std::size_t i = 0; i < n; ++i) {
            const bool positive = std::hypot(X[2 * i] - In(0.5), X[2 * i + 1] - In(0.5)) < In(0.4);
            linear[i] = positive ? -1.0 : 1.0;
            (positive ? upper : lower)[i] = positive ? 3.0 : -3.0;
            extra[i] = 0.01;
            curvature[i] = 1.01;
        }
        rows = dense_rows<In, Row>(
            {KernelKind::gaussian, X.data(), nullptr, n, 0, 2, centre, scale, 1.0, nullptr}, 2);
        for (std::size_t i = 0; i < n; ++i) {
            Row* const out = K.data() + i * n;
            rows->fill(&i, 1, 0, n, &out);
        }
    }
    Dual dual() {
        return {linear.data(),    lower.data(), upper.data(), extra.data(),
                curvature.data(), b.data(),     sums.data()};
    }
    void reset() {
        std::fill(b.begin(), b.end(), 0.0);
        std::fill(sums.begin(), sums.end(), 0.0);
    }
    // Largest error of the sums.
    double drift() const {
        double worst = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            double sum = 0.0;
            for (std::size_t j = 0; j < n; ++j) sum += static_cast<double>(K[i * n + j]) * b[j];
            worst = std::max(worst, std::abs(sum - sums[i]));
        }
        return worst;
    }
    double objective() const {
        double sum = 0.0;
        for (std::size_t i = 0; i < n; ++i)
            sum += b[i] * (0.5 * sums[i] + 0.5 * extra[i] * b[i] + linear[i]);
        return sum;
    }
    double total() const {
        double sum = 0.0;
        for (double x : b) sum += x;
        return sum;
    }
    bool kernel_is_right() const {
        double worst = 0.0;
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) {
                const double x = static_cast<double>(X[2 * i]) - static_cast<double>(X[2 * j]);
                const double y =
                    static_cast<double>(X[2 * i + 1]) - static_cast<double>(X[2 * j + 1]);
                const double exact = std::exp(-16.0 * (x * x + y * y));
                worst = std::max(worst, std::abs(exact - static_cast<double>(K[i * n + j])));
            }
        return worst < 1e-6;
    }

    static constexpr double centre[] = {0.5, 0.5}, scale[] = {4.0, 4.0};
    std::size_t n;
    std::vector<In> X;
    std::vector<double> linear, lower, upper, extra, curvature, b, sums;
    std::vector<Row> K;
    std::unique_ptr<RowSource<Row>> rows;
};

template <class In, class Row>
bool machines_are_right(std::size_t n) {
    Machine<In, Row> machine(n);
    if (!machine.kernel_is_right()) return false;
    const MatrixRows<Row> matrix(machine.K.data(), n);
    bool right = true;
    double greedy = 0.0;
    for (std::size_t threads : {1, 2, 3})
        for (int way = 0; way < 6; ++way) {
            // A cache for all rows, for three a thread, and none; one variable at a time or
            // several.
            const RowSource<Row>& source =
                way / 2 == 2 ? static_cast<const RowSource<Row>&>(matrix) : *machine.rows;
            const std::size_t bytes = (way / 2 ? 3 * threads : n * n) * n * sizeof(Row);
            std::vector<std::size_t> starts;
            for (std::size_t t = 0; t <= threads; ++t) starts.push_back(n * t / threads);
            machine.reset();
            GreedyDescent<Row> descent(source, starts, bytes, way % 2 ? 7 : 1);
            Ran ran;
            do ran = descent.run(machine.dual(), 1e-6, 1000);
            while (ran.n_updates);
            const double value = machine.objective();
            if (threads == 1 && way == 0) greedy = value;
            right = right && machine.drift() < 1e-9 && std::abs(value - greedy) < 1e-6;

            // Sums that rows are added to are those of the matrix.
            std::vector<Row> made(n * n);
            std::vector<std::size_t> all(n);
            for (std::size_t i = 0; i < n; ++i) all[i] = i;
            fill_rows(source, all.data(), n, made.data(), static_cast<int>(threads));
            std::vector<const Row*> held;
            for (std::size_t i = 0; i < n; ++i) held.push_back(made.data() + i * n);
            std::fill(machine.sums.begin(), machine.sums.end(), 0.0);
            add_rows(held, machine.b.data(), n, machine.sums.data(), static_cast<int>(threads));
            right = right && machine.drift() < 1e-9;
        }
    machine.reset();
    const Ran ran = descend_pairs(machine.K.data(), n, machine.dual(), 1e-6, 1'000'000);
    return right && greedy < -1.0 && machine.objective() > greedy && ran.score <= 1e-6 &&
           machine.drift() < 1e-9 && std::abs(machine.total()) < 1e-9;
}

bool failures_are_passed_on() {
    const std::size_t n = 1200;
    Machine<double, double> machine(n);
    const FunctionRows<double> source(
        n, 1, [&](const auto* rows, auto count, auto first, auto last, auto* const* out) {
            if (rows[0] % 5 == 0) throw std::runtime_error("row");
            machine.rows->fill(rows, count, first, last, out);
        });
    std::vector<double> out(3 * n);
    const std::size_t rows[] = {1, 5, 7};
    fill_rows(source, rows, 1, out.data(), 3);
    try {
        fill_rows(source, rows, 3, out.data(), 3);
        return false;
    } catch (const std::runtime_error&) {
        return true;
    }
}

}  // namespace

bool dual_machines_are_right() {
    return machines_are_right<float, float>(800) && machines_are_right<double, float>(800) &&
           machines_are_right<double, double>(801) && failures_are_passed_on();
}
