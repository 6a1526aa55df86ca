// Rows of the kernel matrix of CSR data, by the core.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernel_rows.hpp"

namespace mercer {

// A kernel that the core knows, but for the direct ones that are products, of scaled CSR rows,
// whose places ascend within a row. The rows asked for are unpacked side by side, and all others
// pass by.
template <class Row>
class SparseKernelRows : public RowSource<Row> {
  public:
    // The arrays of `csr` have to outlive the source; its sizes are not looked at.
    SparseKernelRows(KernelKind kind, const CsrRows& csr, std::size_t n, std::size_t d,
                     double parameter)
        : RowSource<Row>(n), kind_(kind), csr_(csr), d_(d), parameter_(parameter), sizes_(n) {
        bool finite = true;
        for (std::size_t i = 0; i < n; ++i) {
            for (auto e = csr.starts[i]; e < csr.starts[i + 1]; ++e)
                sizes_[i] +=
                    is_direct(kind) ? std::abs(csr.values[e]) : csr.values[e] * csr.values[e];
            finite &= sizes_[i] <= std::numeric_limits<double>::max() / 8;
        }
        if (!finite)
            throw std::invalid_argument(
                "X is too large for this kernel: squared distances overflow; rescale it.");
        csr_.sizes = sizes_.data();
        rooms_.emplace_back(d_ * kSparseRows);
    }
    std::size_t at_once() const override { return kSparseRows; }

    void fill(const std::size_t* rows, std::size_t count, std::size_t first, std::size_t last,
              Row* const* out) const override {
        std::vector<double> dense = room();
        const auto unpack = [&](double factor) {
            for (std::size_t r = 0; r < count; ++r)
                for (auto e = csr_.starts[rows[r]]; e < csr_.starts[rows[r] + 1]; ++e)
                    dense[csr_.places[e] * kSparseRows + r] = factor * csr_.values[e];
        };
        unpack(1.0);
        const CsrTile<Row> tile{csr_, dense.data(), rows, count, first, last, parameter_, out};
        if constexpr (sizeof(Row) == sizeof(float))
            kernel_loops().sparse_rows_f32(kind_, tile);
        else
            kernel_loops().sparse_rows_f64(kind_, tile);
        unpack(0.0);
        const std::lock_guard lock(mutex_);
        rooms_.push_back(std::move(dense));
    }

  private:
    // Zeros for the rows asked for, (d, kSparseRows): of another call, or new.
    std::vector<double> room() const {
        {
            const std::lock_guard lock(mutex_);
            if (!rooms_.empty()) {
                std::vector<double> taken = std::move(rooms_.back());
                rooms_.pop_back();
                return taken;
            }
        }
        return std::vector<double>(d_ * kSparseRows);
    }
    const KernelKind kind_;
    CsrRows csr_;
    const std::size_t d_;
    const double parameter_;
    std::vector<double> sizes_;
    mutable std::mutex mutex_;
    mutable std::vector<std::vector<double>> rooms_;
};

}  // namespace mercer
