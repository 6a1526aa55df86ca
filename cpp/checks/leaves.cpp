// The part of check.cpp that is about many small kernel machines.
#include "leaves.hpp"
#include "leaf_newton.hpp"
#include "leaf_products.hpp"
#include "random.hpp"

#include <array>
#include <cmath>

using namespace mercer;

namespace {

std::vector<double> uniform(std::uint64_t key, std::size_t size) {
    std::vector<double> numbers(size);
    random_fill(key, 2, 0, size, to_open_unit_interval, numbers.data());
    return numbers;
}

// Leaves of several sizes, which share rows.
struct Leaves {
    Leaves(std::initializer_list<std::size_t> sizes, std::size_t n_, std::size_t d_)
        : n(n_), d(d_) {
        for (std::size_t size : sizes) {
            for (std::size_t i = 0; i < size; ++i)
                order.push_back(static_cast<std::int64_t>((order.size() * 7 + i) % n));
            starts.push_back(static_cast<std::int64_t>(order.size()));
        }
        const auto numbers = uniform(1, n * d);
        x.assign(numbers.begin(), numbers.end());
        scale.assign(d, 1 / std::sqrt(static_cast<double>(d)));
    }
    LeafRows rows() const { return {order.data(), starts.data(), starts.size() - 1}; }
    LeafKernel kernel(KernelKind kind) const { return {kind, d, scale.data(), 2.5}; }

    std::size_t n, d;
    std::vector<std::int64_t> order, starts{0};
    std::vector<float> x;
    std::vector<double> scale;
};

// That the equations hold, with entries that kernel_block makes.
bool machines_are_right(const Leaves& leaves, KernelKind kind, std::size_t k, bool weighted,
                        bool intercept) {
    const auto targets = uniform(2, leaves.n * k), weights = uniform(3, leaves.n);
    const std::vector<double> ridges{0.5, 3.0};
    const LeafRows rows = leaves.rows();
    const std::size_t m = leaves.order.size(), q = ridges.size();
    std::vector<double> coef(q * m * k), b(q * rows.count * k), residual(q * rows.count);
    solve_leaves({leaves.x.data(), leaves.kernel(kind), rows, targets.data(), k,
                  weighted ? weights.data() : nullptr, ridges.data(), q, intercept, 1e-6,
                  coef.data(), b.data(), residual.data()},
                 3);
    double worst = *std::max_element(residual.begin(), residual.end()) - 1e-6;
    for (std::size_t leaf = 0; leaf < rows.count; ++leaf) {
        const std::size_t size = rows.size(leaf), d = leaves.d;
        std::vector<float> own, K(size * size);
        for (std::size_t i = 0; i < size; ++i)
            own.insert(own.end(), leaves.x.data() + rows.row(rows.first(leaf) + i) * d,
                       leaves.x.data() + rows.row(rows.first(leaf) + i) * d + d);
        const std::vector<double> centre(d, 0.5);
        if (!kernel_block<float>({kind, own.data(), own.data(), size, size, d, centre.data(),
                                  leaves.scale.data(), 2.5, K.data()},
                                 Accuracy::full, 1))
            return false;
        for (std::size_t r = 0; r < q; ++r)
            for (std::size_t c = 0; c < k; ++c) {
                const double* const a = coef.data() + (r * m + rows.first(leaf)) * k + c;
                double sum = 0;
                for (std::size_t i = 0; i < size; ++i) {
                    const std::size_t row = rows.row(rows.first(leaf) + i);
                    double left = targets[row * k + c] - b[(r * rows.count + leaf) * k + c] -
                                  ridges[r] / (weighted ? weights[row] : 1.0) * a[i * k];
                    for (std::size_t j = 0; j < size; ++j)
                        left -= static_cast<double>(K[i * size + j]) * a[j * k];
                    worst = std::max(worst, std::abs(left) - 1e-3);
                    sum += a[i * k];
                }
                if (intercept) worst = std::max(worst, std::abs(sum) - 1e-4);
            }
    }
    return worst <= 0;
}

// That Newton's method ends where slopes + ridge coef is small.
bool minima_are_right(const Leaves& leaves, LeafLoss loss, std::size_t k, bool weighted,
                      bool intercept) {
    const auto numbers = uniform(2, leaves.n), weights = uniform(3, leaves.n);
    std::vector<double> targets(leaves.n * k);
    for (std::size_t i = 0; i < leaves.n; ++i)
        for (std::size_t c = 0; c < k; ++c) {
            const bool right = static_cast<double>(k) * numbers[i] < static_cast<double>(c + 1);
            targets[i * k + c] =
                loss == LeafLoss::multinomial
                    ? right && static_cast<double>(k) * numbers[i] >= static_cast<double>(c)
                : right ? 1.0
                        : -1.0;
        }
    const std::vector<double> ridges{3.0, 0.1};
    const LeafRows rows = leaves.rows();
    const std::size_t m = leaves.order.size(), q = ridges.size();
    std::vector<double> coef(q * m * k), b(q * rows.count * k), residual(q * rows.count);
    std::vector<std::int64_t> steps(q * rows.count);
    minimise_leaves({{leaves.x.data(), leaves.kernel(KernelKind::gaussian), rows, targets.data(), k,
                      weighted ? weights.data() : nullptr, ridges.data(), q, intercept, 1e-3,
                      coef.data(), b.data(), residual.data()},
                     loss,
                     0.7,
                     100,
                     steps.data()},
                    3);
    // Leaves of few rows may have one class, whose minimum is far away.
    for (std::size_t leaf = 0; leaf < rows.count; ++leaf)
        for (std::size_t r = 0; rows.size(leaf) > 48 && r < q; ++r)
            if (!(residual[r * rows.count + leaf] <= 1e-3)) return false;
    return true;
}

// Few rows and many rows of a leaf, which go different ways, against each other.
template <class T>
bool predictions_are_right(const Leaves& leaves, KernelKind kind, std::size_t k) {
    const LeafRows rows = leaves.rows();
    const std::vector<T> x(leaves.x.begin(), leaves.x.end());
    const auto coef = uniform(4, leaves.order.size() * k), b = uniform(5, rows.count * k);
    std::vector<std::int64_t> pairs, of;
    for (std::size_t leaf = 0; leaf < rows.count; ++leaf)
        for (std::size_t i = 0; i < 60; ++i) {
            pairs.push_back(static_cast<std::int64_t>(i * 5));
            of.push_back(static_cast<std::int64_t>(leaf));
        }
    const std::vector<double> shares(pairs.size(), 0.5);
    std::vector<double> together(leaves.n * k), alone(leaves.n * k);
    const auto add = [&](std::size_t first, std::size_t count, std::vector<double>& out) {
        return add_leaf_products<T>({x.data(), pairs.data() + first, of.data() + first,
                                     shares.data() + first, count, x.data(), rows,
                                     leaves.kernel(kind), k, coef.data(), b.data(), out.data()},
                                    3);
    };
    bool right = add(0, pairs.size(), together);
    for (std::size_t first = 0; first < pairs.size(); first += 3) right &= add(first, 3, alone);
    for (std::size_t i = 0; i < alone.size(); ++i)
        right &= std::abs(alone[i] - together[i]) <= 1e-5 * (1 + std::abs(alone[i]));
    return right;
}

}  // namespace

bool leaves_are_right() {
    bool right = true;
    for (auto kind : {KernelKind::gaussian, KernelKind::rational_power, KernelKind::cauchy,
                      KernelKind::laplacian})
        for (auto [d, k] : {std::array<std::size_t, 2>{7, 1}, {43, 3}}) {
            const Leaves leaves({1, 0, 96, 500}, 300, d);
            right = right && predictions_are_right<float>(leaves, kind, k) &&
                    predictions_are_right<double>(leaves, kind, k);
        }
    for (auto loss : {LeafLoss::logistic, LeafLoss::squared_hinge, LeafLoss::smooth_hinge,
                      LeafLoss::huber, LeafLoss::multinomial})
        for (auto [k, weighted, intercept] :
             {std::array<std::size_t, 3>{2, 0, 1}, {3, 1, 1}, {5, 1, 0}})
            right = right && minima_are_right(Leaves({1, 0, 2, 97, 260, 13}, 300, 7), loss, k,
                                              weighted != 0, intercept != 0);
    for (auto kind : {KernelKind::gaussian, KernelKind::rational_power, KernelKind::laplacian})
        for (auto [k, weighted, intercept] :
             {std::array<std::size_t, 3>{1, 0, 1}, {3, 1, 1}, {8, 1, 0}})
            right = right && machines_are_right(Leaves({1, 0, 2, 96, 97, 260, 49, 13, 8}, 300, 7),
                                                kind, k, weighted != 0, intercept != 0);
    return right;
}
