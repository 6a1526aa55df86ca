// Coordinate descent without waiting: every thread moves columns of its own by what the slopes are
// at the moment, and adds to them atomically. What comes out depends on who was when where; the
// caller looks whether it is better than what went in.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "descent.hpp"

namespace mercer {

inline void add_atomically(std::atomic<double>& number, double change) {
    double before = number.load(std::memory_order_relaxed);
    while (!number.compare_exchange_weak(before, before + change, std::memory_order_relaxed)) {
    }
}

// `sweeps` times over all columns, thread t the columns t, t + n_threads, ... Curvatures are those
// of single columns. The slopes at the end belong to w up to rounding.
template <class T>
void descend_async(const SparseColumns<T>& Z, const Net& net, const double* row_curvature,
                   double* slope, std::size_t sweeps, int n_threads) {
    std::vector<std::atomic<double>> shared(Z.n);
    for (std::size_t i = 0; i < Z.n; ++i) shared[i].store(slope[i], std::memory_order_relaxed);
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    const double per_row = Z.scale / static_cast<double>(Z.n);
    on_threads(static_cast<int>(threads), [&](int thread) {
        for (std::size_t sweep = 0; sweep < sweeps; ++sweep)
            for (auto k = static_cast<std::size_t>(thread); k < Z.p; k += threads) {
                double sum = 0.0;
                for (auto e = Z.starts[k]; e < Z.starts[k + 1]; ++e)
                    sum += (Z.values ? static_cast<double>(Z.values[e]) : 1.0) *
                           shared[Z.rows[e]].load(std::memory_order_relaxed);
                const double step = step_along(net, k, sum * per_row);
                if (step == 0.0) continue;
                net.w[k] += step;  // no other thread reads or writes it
                for (auto e = Z.starts[k]; e < Z.starts[k + 1]; ++e) {
                    const std::size_t i = Z.rows[e];
                    double change = step * Z.scale;
                    if (Z.values) change *= static_cast<double>(Z.values[e]);
                    if (row_curvature) change *= row_curvature[i];
                    add_atomically(shared[i], change);
                }
            }
    });
    for (std::size_t i = 0; i < Z.n; ++i) slope[i] = shared[i].load(std::memory_order_relaxed);
}

}  // namespace mercer
