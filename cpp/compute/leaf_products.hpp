// Predictions of many small kernel machines, each for some rows, from kernels that are never held.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel_product.hpp"
#include "leaf_matrix.hpp"

namespace mercer {

// out[row] += share * (k(x[row], landmarks of the leaf) coef + intercept), pair by pair.
template <class In>
struct LeafProducts {
    const In* x;                    // (n, d)
    const std::int64_t *rows, *of;  // (pairs): rows and their leaves, which never fall
    const double* shares;           // (pairs)
    std::size_t pairs;
    const In* landmarks;  // (any, d), by the numbers in the leaves
    LeafRows leaves;
    LeafKernel kernel;
    std::size_t k;
    const double* coef;       // (entries of order, k)
    const double* intercept;  // (leaves, k)
    double* out;              // (n, k)
};

// What one thread works in.
template <class In>
class LeafPredictor {
  public:
    explicit LeafPredictor(const LeafProducts<In>& work) : work_(work), d_(work.kernel.d) {}

    // values (count, k) += kernels times coefficients for neighbouring pairs of one leaf; false if
    // squared distances overflow.
    bool add(std::size_t first, std::size_t count, double* values) {
        const auto leaf = static_cast<std::size_t>(work_.of[first]);
        if (work_.leaves.size(leaf) == 0) return true;
        if (count <= kFew) {
            bool small = true;
            for (std::size_t i = 0; i < count; ++i)
                small &= add_row(leaf, row_of(first + i), values + i * work_.k);
            return small;
        }
        return add_rows(leaf, first, count, values);
    }

  private:
    static constexpr std::size_t kFew = 12;  // rows for which to pack a leaf does not pay

    const In* row_of(std::size_t pair) const {
        return work_.x + static_cast<std::size_t>(work_.rows[pair]) * d_;
    }

    bool add_rows(std::size_t leaf, std::size_t first, std::size_t count, double* values) {
        const std::size_t m = work_.leaves.size(leaf), start = work_.leaves.first(leaf);
        rows_.resize(count * d_);
        landmarks_.resize(m * d_);
        centre_.assign(d_, 0.0);
        for (std::size_t i = 0; i < count; ++i)
            std::copy_n(row_of(first + i), d_, rows_.data() + i * d_);
        for (std::size_t i = 0; i < m; ++i) {
            const In* const row = work_.landmarks + work_.leaves.row(start + i) * d_;
            std::copy_n(row, d_, landmarks_.data() + i * d_);
            for (std::size_t j = 0; j < d_; ++j) centre_[j] += static_cast<double>(row[j]);
        }
        for (double& c : centre_) c /= static_cast<double>(m);
        const LeafKernel& kernel = work_.kernel;
        return kernel_product<In, double>(
            {{kernel.kind, rows_.data(), landmarks_.data(), count, m, d_, centre_.data(),
              kernel.scale, kernel.parameter, nullptr},
             work_.k,
             work_.coef + start * work_.k,
             values,
             nullptr,
             nullptr,
             false},
            Accuracy::single, 1);
    }

    bool add_row(std::size_t leaf, const double* row, double* values) {
        if (!multiply(kernel_loops().row_f64, in_float64_, leaf, row)) return false;
        std::transform(sums_.begin(), sums_.end(), values, values, std::plus<double>());
        return true;
    }
    // Sums over differences are as accurate in float32 as its numbers, except for what profiles
    // need float64 for and where they overflow.
    bool add_row(std::size_t leaf, const float* row, double* values) {
        const LeafKernel& kernel = work_.kernel;
        const bool ordinary = std::all_of(kernel.scale, kernel.scale + d_, [](double scale) {
            return scale > 1e-12 && scale < 1e12;
        });
        const bool single = kernel.kind != KernelKind::sqeuclidean &&
                            kernel.kind != KernelKind::cityblock &&
                            kernel.kind != KernelKind::rational_power;
        if (ordinary && single && multiply(kernel_loops().row_f32, in_float32_, leaf, row)) {
            std::transform(sums_.begin(), sums_.end(), values, values, std::plus<double>());
            return true;
        }
        if (!multiply(kernel_loops().row_f32_in_f64, in_float64_, leaf, row)) return false;
        std::transform(sums_.begin(), sums_.end(), values, values, std::plus<double>());
        return true;
    }
    template <class T>
    bool multiply(bool (*loop)(KernelKind, const RowProduct<T, In>&), std::vector<T>& numbers,
                  std::size_t leaf, const In* row) {
        const LeafKernel& kernel = work_.kernel;
        numbers.resize(2 * d_);
        for (std::size_t j = 0; j < d_; ++j) {
            numbers[j] = static_cast<T>(row[j]);
            numbers[d_ + j] = static_cast<T>(kernel.scale[j]);
        }
        sums_.assign(work_.k, 0.0);
        const std::size_t start = work_.leaves.first(leaf);
        return loop(kernel.kind,
                    {numbers.data(), numbers.data() + d_, work_.landmarks,
                     work_.leaves.order + start, work_.leaves.size(leaf), d_, work_.k,
                     static_cast<T>(kernel.parameter), work_.coef + start * work_.k, sums_.data()});
    }

    const LeafProducts<In>& work_;
    const std::size_t d_;
    std::vector<In> rows_, landmarks_;
    std::vector<float> in_float32_;
    std::vector<double> centre_, in_float64_, sums_;
};

// False, with the results undefined, if squared distances overflow. Pairs are added in their order
// by one thread, so that rows may be in several leaves and the number of threads changes no bit.
template <class In>
bool add_leaf_products(const LeafProducts<In>& work, int n_threads) {
    constexpr std::size_t most_values = 1 << 20, most_pairs = 1024;  // together; in an item
    const std::size_t k = work.k;
    if (k == 0) return true;
    struct Item {
        std::size_t first, count;
    };
    std::vector<LeafPredictor<In>> rooms(static_cast<std::size_t>(std::max(n_threads, 1)),
                                         LeafPredictor<In>(work));
    std::vector<Item> items;
    std::vector<double> values;
    std::atomic<bool> small{true};
    const std::size_t step = std::max(most_values / k, most_pairs);
    for (std::size_t first = 0; first < work.pairs && small; first += step) {
        const std::size_t last = std::min(first + step, work.pairs);
        items.clear();
        std::size_t cost = 0;
        for (std::size_t i = first, next; i < last; i = next) {
            for (next = i + 1; next < last && next < i + most_pairs && work.of[next] == work.of[i];)
                ++next;
            items.push_back({i, next - i});
            cost += (next - i) * work.leaves.size(static_cast<std::size_t>(work.of[i]));
        }
        values.assign((last - first) * k, 0.0);
        const bool worth = cost * (work.kernel.d + k + 20) >= 5 * kWorthThreads;
        parallel_for(items.size(), worth ? n_threads : 1, [&](std::size_t i, int thread) {
            const Item& item = items[i];
            if (!rooms[static_cast<std::size_t>(thread)].add(
                    item.first, item.count, values.data() + (item.first - first) * k))
                small = false;
        });
        for (std::size_t i = first; i < last; ++i) {
            double* const out = work.out + static_cast<std::size_t>(work.rows[i]) * k;
            const double* const constant =
                work.intercept + static_cast<std::size_t>(work.of[i]) * k;
            for (std::size_t c = 0; c < k; ++c)
                out[c] += work.shares[i] * (values[(i - first) * k + c] + constant[c]);
        }
    }
    return small;
}

}  // namespace mercer
