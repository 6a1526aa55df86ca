// Kernel matrices of leaves, which are small sets of rows, as factor_loops.hpp wants them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "factor.hpp"
#include "kernel_block.hpp"

namespace mercer {

// Leaf l has the rows order[starts[l]] .. order[starts[l + 1] - 1].
struct LeafRows {
    const std::int64_t *order, *starts;
    std::size_t count;  // of leaves

    std::size_t first(std::size_t leaf) const { return static_cast<std::size_t>(starts[leaf]); }
    std::size_t size(std::size_t leaf) const { return first(leaf + 1) - first(leaf); }
    std::size_t row(std::size_t place) const { return static_cast<std::size_t>(order[place]); }
    std::size_t largest() const {
        std::size_t most = 0;
        for (std::size_t leaf = 0; leaf < count; ++leaf) most = std::max(most, size(leaf));
        return most;
    }
};

// The kernel of all leaves.
struct LeafKernel {
    KernelKind kind;
    std::size_t d;
    const double* scale;  // (d)
    double parameter;
};

// Targets of rows that are in leaves, and room for what solves each leaf for each ridge.
struct LeafWork {
    const float* x;  // (n, d)
    LeafKernel kernel;
    LeafRows leaves;
    const double* targets;  // (n, k)
    std::size_t k;
    const double* weights;  // (n) or null
    const double* ridges;   // (n_ridges)
    std::size_t n_ridges;
    bool fit_intercept;
    double tol;         // residual that is small enough
    double* coef;       // (n_ridges, entries of order, k)
    double* intercept;  // (n_ridges, leaves, k)
    double* residual;   // (n_ridges, leaves)
};

// The kernel matrix of a leaf, its upper half in the strips of factor_loops.hpp. Of the squares on
// the diagonal there are both halves; what fills up the last strip is 0.
class LeafMatrix {
  public:
    // `most` rows of a leaf.
    LeafMatrix(const LeafKernel& kernel, std::size_t most)
        : width_(factor_loops().width), centre_(kernel.d), rows_(most * kernel.d),
          kernel_{kernel.kind,    rows_.data(), rows_.data(),     0,      0, kernel.d,
                  centre_.data(), kernel.scale, kernel.parameter, nullptr},
          most_(most), tile_(kKernelRows * most_columns()) {}
    LeafMatrix(const LeafMatrix&) = delete;
    LeafMatrix& operator=(const LeafMatrix&) = delete;

    // False if squared distances overflow.
    bool make(const float* x, const LeafRows& leaves, std::size_t leaf, float* matrix) {
        const std::size_t d = kernel_.d, n = leaves.size(leaf);
        std::fill(centre_.begin(), centre_.end(), 0.0);
        for (std::size_t i = 0; i < n; ++i) {
            const float* const row = x + leaves.row(leaves.first(leaf) + i) * d;
            std::copy_n(row, d, rows_.data() + i * d);
            for (std::size_t j = 0; j < d; ++j) centre_[j] += static_cast<double>(row[j]);
        }
        for (double& c : centre_) c /= static_cast<double>(n);
        kernel_.n = kernel_.m = n;
        const KernelTables& tables = kernel_loops();
        if (is_right_in_float32(kernel_, Accuracy::single, 1))
            return fill(tables.f32, in_float32_, matrix);
        return fill(tables.f32_in_f64, in_float64_, matrix);
    }

  private:
    // Rows packed for one type of arithmetic, once a leaf needs it.
    template <class T>
    struct Packed {
        Packed(const KernelLoops<T, float>& loops, const KernelWork<float>& kernel,
               std::size_t most)
            : left(loops, kernel, loops.left_width, most),
              right(loops, kernel, loops.right_width, most),
              weights(kernel.scale, kernel.scale + kernel.d) {}
        PackedRows<T, float> left, right;
        std::vector<T> weights;
    };

    static std::size_t most_columns() {
        return std::max(kernel_loops().f32.right_width, kernel_loops().f32_in_f64.right_width);
    }

    template <class T>
    bool fill(const KernelLoops<T, float>& loops, std::unique_ptr<Packed<T>>& packed,
              float* matrix) {
        if (!packed) packed = std::make_unique<Packed<T>>(loops, kernel_, most_);
        const std::size_t n = kernel_.n, d = kernel_.d, right = loops.right_width;
        bool small = true;
        const auto pack = [&](PackedRows<T, float>& to, std::size_t width) {
            for (std::size_t i = 0; i < n; i += width)
                small &= to.pack(i / width, rows_.data() + i * d, std::min(width, n - i));
        };
        pack(packed->left, loops.left_width);
        pack(packed->right, right);
        if (!small) return false;
        const std::size_t last = (n - 1) / width_;
        std::fill(matrix + start_of_strip(last, width_), matrix + start_of_strip(last + 1, width_),
                  0.0f);
        for (std::size_t q = 0; q < n; q += right) {
            const std::size_t columns = std::min(right, n - q);
            const std::size_t end = std::min(((q + columns - 1) / width_ + 1) * width_, n);
            for (std::size_t i = 0; i < end; i += kKernelRows)
                make_tile(loops, *packed, i, std::min(kKernelRows, end - i), q, columns, matrix);
        }
        return true;
    }

    // Straight into the strip where there is only one.
    template <class T>
    void make_tile(const KernelLoops<T, float>& loops, Packed<T>& packed, std::size_t i,
                   std::size_t rows, std::size_t q, std::size_t columns, float* matrix) {
        const std::size_t d = kernel_.d, strip = q / width_, column = q % width_;
        const bool straight = column + columns <= width_;
        const std::size_t step = straight ? width_ : loops.right_width;
        float* const place = matrix + start_of_strip(strip, width_) + i * width_ + column;
        float* const out = straight ? place : tile_.data();
        loops.tile(kernel_.kind,
                   {packed.left.numbers.data() + i * d,
                    packed.right.numbers_of(q / loops.right_width), packed.left.squares.data() + i,
                    packed.right.squares.data() + q, rows_.data() + i * d, rows_.data() + q * d,
                    kernel_.scale, packed.weights.data(), d, rows, columns,
                    static_cast<T>(kernel_.parameter), out, step});
        if (straight) return;
        for (std::size_t j = 0; j < columns;) {
            const std::size_t s = (q + j) / width_, first = (q + j) % width_;
            const std::size_t count = std::min(width_ - first, columns - j);
            float* to = matrix + start_of_strip(s, width_) + i * width_ + first;
            const std::size_t end = std::min(i + rows, std::max((s + 1) * width_, i));
            for (std::size_t row = 0; row < end - i; ++row, to += width_)
                std::memcpy(to, tile_.data() + row * step + j, count * sizeof(float));
            j += count;
        }
    }

    const std::size_t width_;
    std::vector<double> centre_;
    std::vector<float> rows_;
    KernelWork<float> kernel_;
    const std::size_t most_;
    std::vector<float> tile_;
    std::unique_ptr<Packed<float>> in_float32_;
    std::unique_ptr<Packed<double>> in_float64_;
};

}  // namespace mercer
