// Losses of rows that Newton's method minimises, with two derivatives: the twins of the classes of
// losses/ that have the same names there. `parameter` is delta of "huber".
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace mercer {

enum class LeafLoss { logistic, squared_hinge, smooth_hinge, huber, multinomial };
inline constexpr std::array<std::string_view, 5> leaf_loss_names{
    "logistic", "squared_hinge", "smooth_hinge", "huber", "multinomial"};

// The loss is value + log(factor), 1 <= factor <= 2: a product needs one logarithm for many rows.
struct RowLoss {
    double value, slope, bend, factor = 1;
};

// The weighted sum of losses of rows.
struct Losses {
    double value = 0, factor = 1;

    void add(const RowLoss& row, double weight, bool weighted) {
        value += weight * row.value;
        if (!weighted)
            factor *= row.factor;
        else if (row.factor != 1)
            value += weight * std::log(row.factor);
        if (factor > 1e290) {
            value += std::log(factor);
            factor = 1;
        }
    }
    double sum() const { return value + std::log(factor); }
};

inline RowLoss row_loss(LeafLoss loss, double parameter, double u, double y) {
    const double short_by = 1 - y * u, clipped = std::clamp(short_by, 0.0, 1.0);
    switch (loss) {
    case LeafLoss::logistic: {
        const double v = y * u, small = std::exp(-std::abs(v)), share = 1 / (1 + small);
        return {std::max(-v, 0.0), -y * (v >= 0 ? small : 1.0) * share, small * share * share,
                1 + small};
    }
    case LeafLoss::squared_hinge:
        return short_by > 0 ? RowLoss{short_by * short_by, -2 * y * short_by, 2.0}
                            : RowLoss{0, 0, 0};
    case LeafLoss::smooth_hinge:
        return {clipped * (short_by - clipped / 2), -y * clipped,
                short_by > 0 && short_by < 1 ? 1.0 : 0.0};
    default: {
        const double r = u - y, near = std::clamp(r, -parameter, parameter);
        return {near * (r - near / 2), near, std::abs(r) <= parameter ? 1.0 : 0.0};
    }
    }
}

// The multinomial loss of a row with k responses u, for targets y that are `step` apart; the shares
// of the classes go to p.
inline double multinomial_loss(const double* u, const double* y, std::size_t k, std::size_t step,
                               double* p) {
    double most = u[0], sum = 0, of_targets = 0;
    for (std::size_t c = 1; c < k; ++c) most = std::max(most, u[c]);
    for (std::size_t c = 0; c < k; ++c) {
        p[c] = std::exp(u[c] - most);
        sum += p[c];
        of_targets += y[c * step] * (u[c] - most);
    }
    for (std::size_t c = 0; c < k; ++c) p[c] /= sum;
    return std::log(sum) - of_targets;
}

}  // namespace mercer
