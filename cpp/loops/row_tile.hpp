// Kernels of one row with scattered others times weights: nothing is packed, which would take
// longer than the kernels. Included only by files compiled once per level.
#pragma once

#include "gather.hpp"
#include "kernel_tile.hpp"

namespace mercer {
namespace {

// How t = (x - y) * scale of an input joins a sum, and where sums begin.
struct SumOfSquares {
    static constexpr int start = 0;
    template <class V>
    static MERCER_INLINE V step(V sum, V t) {
        return sum + t * t;
    }
    template <class V>
    static MERCER_INLINE V join(V a, V b) {
        return a + b;
    }
};
struct SumOfMagnitudes {
    static constexpr int start = 0;
    template <class V>
    static MERCER_INLINE V step(V sum, V t) {
        return sum + magnitude(t);
    }
    template <class V>
    static MERCER_INLINE V join(V a, V b) {
        return a + b;
    }
};
template <class T>
struct ProductOfSquares {
    static constexpr int start = 1;
    template <class V>
    static MERCER_INLINE V step(V product, V t) {
        return product * (t * t + broadcast(T(1)));
    }
    template <class V>
    static MERCER_INLINE V join(V a, V b) {
        return a * b;
    }
};

// Neighbouring lanes of a joined, then those of b.
template <class T, class Metric>
MERCER_INLINE Vector<T> join_neighbours(Vector<T> a, Vector<T> b) {
#if (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)) && !defined(MERCER_PLAIN_VECTORS)
    return [&]<int... i>(std::integer_sequence<int, i...>) MERCER_INLINE_BODY {
        return Metric::join(__builtin_shufflevector(a, b, (2 * i)...),
                            __builtin_shufflevector(a, b, (2 * i + 1)...));
    }(std::make_integer_sequence<int, lanes<T>>());
#else
    T both[2 * lanes<T>], joined[lanes<T>];
    store(both, a);
    store(both + lanes<T>, b);
    for (int i = 0; i < lanes<T>; ++i) joined[i] = Metric::join(both[2 * i], both[2 * i + 1]);
    return load(joined);
#endif
}

template <class T, class In>
MERCER_INLINE Vector<T> as_numbers(const In* from) {
    if constexpr (sizeof(T) == sizeof(In))
        return load(from);
    else
        return widen(from);
}

// values (count) = the sums over inputs of the rows order[0 .. count), up to whole vectors
template <class Metric, class T, class In>
MERCER_INLINE void sum_inputs(const RowProduct<T, In>& work, const std::int64_t* order,
                              std::size_t count, T* values) {
    constexpr std::size_t wide = lanes<T>;
    const std::size_t d = work.d, whole = d / wide * wide;
    // The last vector overlaps the one before it, where its scale is 0.
    T rest_x[wide] = {}, rest_scale[wide] = {};
    const std::size_t rest = d < wide ? 0 : d - wide;
    for (std::size_t k = whole; k < d; ++k) rest_scale[k - rest] = work.scale[k];
    for (std::size_t k = rest; k < d; ++k) rest_x[k - rest] = work.x[k];
    for (std::size_t first = 0; first < count; first += wide) {
        Vector<T> sums[wide];
        for (std::size_t j = 0; j < wide; ++j) {
            const std::size_t place = first + j < count ? first + j : count - 1;
            const In* const row = work.rows + static_cast<std::size_t>(order[place]) * d;
            if (place + wide < count)
                prefetch(work.rows + static_cast<std::size_t>(order[place + wide]) * d, d ? d : 1);
            Vector<T> sum = broadcast(T(Metric::start));
            for (std::size_t k = 0; k < whole; k += wide)
                sum = Metric::step(sum, (load(work.x + k) - as_numbers<T>(row + k)) *
                                            load(work.scale + k));
            if (whole < d) {
                In few[wide] = {};
                if (d < wide)
                    for (std::size_t k = 0; k < d; ++k) few[k] = row[k];
                const Vector<T> numbers = as_numbers<T>(d < wide ? few : row + rest);
                sum = Metric::step(sum, (load(rest_x) - numbers) * load(rest_scale));
            }
            sums[j] = sum;
        }
        for (std::size_t n = wide; n > 1; n /= 2)
            for (std::size_t j = 0; j < n / 2; ++j)
                sums[j] = join_neighbours<T, Metric>(sums[2 * j], sums[2 * j + 1]);
        store(values + first, sums[0]);
    }
}

// sums (k) += entries (count) * weights (count, k)
template <class In>
MERCER_INLINE void add_entries(const In* entries, std::size_t count, const double* weights,
                               std::size_t k, double* sums) {
    if (k > 1) {
        for (std::size_t j = 0; j < count; ++j)
            for (std::size_t c = 0; c < k; ++c)
                sums[c] += static_cast<double>(entries[j]) * weights[j * k + c];
        return;
    }
    constexpr std::size_t wide = lanes<double>;
    Vector<double> total = broadcast(0.0);
    std::size_t j = 0;
    for (; j + wide <= count; j += wide) total += widen(entries + j) * load(weights + j);
    double lane[wide];
    store(lane, total);
    for (double part : lane) sums[0] += part;
    for (; j < count; ++j) sums[0] += static_cast<double>(entries[j]) * weights[j];
}

template <class T, class In>
bool multiply_row(KernelKind kind, const RowProduct<T, In>& work) {
    constexpr std::size_t most = kPanelSums<T>;
    T values[most];
    In entries[most];
    bool small = true;
    for (std::size_t first = 0; first < work.count; first += most) {
        const std::size_t count = work.count - first < most ? work.count - first : most;
        const std::int64_t* const order = work.order + first;
        for (T& value : values) value = T(0);
        if (kind == KernelKind::cauchy)
            sum_inputs<ProductOfSquares<T>>(work, order, count, values);
        else if (is_direct(kind))
            sum_inputs<SumOfMagnitudes>(work, order, count, values);
        else
            sum_inputs<SumOfSquares>(work, order, count, values);
        if (!is_direct(kind))
            for (const T value : values) small &= value <= (sizeof(T) == 4 ? T(1e30) : T(1e300));
        KernelTile<T, In> tile{};
        tile.rows = kLeft;
        tile.columns = kRight<T>;
        tile.parameter = work.parameter;
        tile.out = entries;
        tile.out_step = kRight<T>;
        apply_profile(kind, tile, 0, values);
        add_entries(entries, count, work.weights + first * work.k, work.k, work.sums);
    }
    return small;
}

}  // namespace
}  // namespace mercer
