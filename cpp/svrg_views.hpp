// What asynchronous steps see of a design. A view tells the responses of some rows, and adds parts
// of a row to a vector. Views of rows recompute responses from the weights; views of columns keep
// those of all rows and bring them up to date after every move.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "isa.hpp"
#include "svrg_loops.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const SvrgLoops svrg_loops_v2, svrg_loops_v3, svrg_loops_v4;
inline const SvrgLoops* const svrg_tables[] = {&svrg_loops_v2, &svrg_loops_v3, &svrg_loops_v4};
#else
extern const SvrgLoops svrg_loops_baseline;
inline const SvrgLoops* const svrg_tables[] = {&svrg_loops_baseline};
#endif

inline const SvrgLoops& svrg_loops() {
    static const SvrgLoops& chosen = *svrg_tables[choose_level()];
    return chosen;
}

// The rows that a step looks at, and those after them that later steps are known to want.
struct Batch {
    const std::uint32_t* rows;
    std::size_t count, known;
};

template <class T>
struct DenseRows {
    using Weight = std::conditional_t<std::is_same_v<T, double>, double, float>;
    static constexpr bool keeps = false;
    const T* numbers;  // n rows of p
    std::size_t n, p;

    std::size_t row_bytes() const { return p * sizeof(T); }
    void responses(const Batch& batch, const Weight* w, double intercept, double* out) const {
        constexpr std::size_t most = 64;
        const T* rows[most];
        for (std::size_t first = 0; first < batch.count; first += most / 2) {
            const std::size_t count = std::min(batch.count - first, most / 2);
            const std::size_t known = std::min(batch.known - first, most);
            for (std::size_t r = 0; r < known; ++r) rows[r] = numbers + batch.rows[first + r] * p;
            loops().dots(rows, count, known, w, p, out + first);
        }
        for (std::size_t r = 0; r < batch.count; ++r) out[r] += intercept;
    }
    // v_k += factor z_{i, first + k} for k < count
    void add(std::size_t i, double factor, std::size_t first, std::size_t count, double* v) const {
        loops().add(numbers + i * p + first, factor, count, v);
    }
    void moved(std::size_t, double) const {}

  private:
    static const RowLoops<T, Weight>& loops() {
        if constexpr (std::is_same_v<T, Half>)
            return svrg_loops().half;
        else if constexpr (std::is_same_v<T, float>)
            return svrg_loops().f32;
        else
            return svrg_loops().f64;
    }
};

// Compressed sparse rows; columns ascend within a row.
template <class T>
struct SparseRows {
    using Weight = T;
    static constexpr bool keeps = false;
    const T* values;
    const std::int32_t* columns;
    const std::int64_t* starts;  // n + 1
    std::size_t n, p;

    std::size_t row_bytes() const {
        const auto stored = static_cast<std::size_t>(starts[n] - starts[0]);
        return (stored / std::max<std::size_t>(n, 1) + 1) * 2 * (sizeof(T) + sizeof(std::int32_t));
    }
    void responses(const Batch& batch, const Weight* w, double intercept, double* out) const {
        for (std::size_t r = 0; r < batch.count; ++r) {
            double sum = 0.0;
            for (auto e = starts[batch.rows[r]]; e < starts[batch.rows[r] + 1]; ++e)
                sum += static_cast<double>(values[e]) * static_cast<double>(w[columns[e]]);
            out[r] = sum + intercept;
        }
    }
    void add(std::size_t i, double factor, std::size_t first, std::size_t count, double* v) const {
        const auto* end = columns + starts[i + 1];
        for (const auto* c = std::lower_bound(columns + starts[i], end, first, below);
             c < end && static_cast<std::size_t>(*c) < first + count; ++c)
            v[static_cast<std::size_t>(*c) - first] +=
                factor * static_cast<double>(values[c - columns]);
    }
    void moved(std::size_t, double) const {}

  private:
    static bool below(std::int32_t column, std::size_t bound) {
        return static_cast<std::size_t>(column) < bound;
    }
};

// Codes of n rows, one for each of `n_grids` grids; a code beyond its grid's columns means none.
template <class Code, class W>
struct CodeRows {
    using Weight = W;
    static constexpr bool keeps = false;
    const Code* codes;           // n rows of n_grids
    const std::int64_t* starts;  // n_grids + 1
    double scale;
    std::size_t n, n_grids, p;

    std::size_t row_bytes() const { return n_grids * (sizeof(Code) + 4 * sizeof(W)); }
    void responses(const Batch& batch, const Weight* w, double intercept, double* out) const {
        for (std::size_t r = 0; r < batch.count; ++r) {
            const Code* row = codes + batch.rows[r] * n_grids;
            double sum = 0.0;
            for (std::size_t g = 0; g < n_grids; ++g) {
                const std::int64_t column = starts[g] + static_cast<std::int64_t>(row[g]);
                if (column < starts[g + 1]) sum += static_cast<double>(w[column]);
            }
            out[r] = scale * sum + intercept;
        }
    }
    void add(std::size_t i, double factor, std::size_t first, std::size_t count, double* v) const {
        const auto from = static_cast<std::int64_t>(first);
        const auto to = static_cast<std::int64_t>(first + count);
        auto g = static_cast<std::size_t>(std::upper_bound(starts, starts + n_grids + 1, from) -
                                          starts - 1);
        for (; g < n_grids && starts[g] < to; ++g) {
            const std::int64_t column =
                starts[g] + static_cast<std::int64_t>(codes[i * n_grids + g]);
            if (column >= from && column < to && column < starts[g + 1])
                v[column - from] += factor * scale;
        }
    }
    void moved(std::size_t, double) const {}
};

using Margins = std::vector<std::atomic<double>>;

// u_i += change. Another thread's addition at the same moment may be lost: margins are computed
// anew before they are relied on, and a step that is off by one addition is off by little.
inline void add_loosely(std::atomic<double>& u, double change) {
    u.store(u.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
}

// Columns of an array, one after the other.
template <class T>
struct ColumnArray {
    const T* numbers;  // p columns of n
    std::size_t n, p;

    double at(std::size_t i, std::size_t j) const {
        return static_cast<double>(numbers[j * n + i]);
    }
    void add(std::size_t j, double change, Margins& u) const {
        const T* column = numbers + j * n;
        for (std::size_t i = 0; i < n; ++i)
            add_loosely(u[i], change * static_cast<double>(column[i]));
    }
};

// Columns as lists of rows, ascending, and of values, or null for ones.
struct ColumnLists {
    const std::int64_t* starts;  // p + 1
    const std::uint32_t* rows;
    const double* values;
    double scale;
    std::size_t n, p;

    double value(std::int64_t e) const { return values ? scale * values[e] : scale; }
    double at(std::size_t i, std::size_t j) const {
        const auto* end = rows + starts[j + 1];
        const auto* found = std::lower_bound(rows + starts[j], end, i);
        return found < end && *found == i ? value(found - rows) : 0.0;
    }
    void add(std::size_t j, double change, Margins& u) const {
        for (auto e = starts[j]; e < starts[j + 1]; ++e) add_loosely(u[rows[e]], change * value(e));
    }
};

// Responses kept for all rows, those of the intercept included.
template <class Columns>
struct Kept {
    using Weight = float;
    static constexpr bool keeps = true;
    const Columns& columns;
    Margins& u;
    std::size_t n = columns.n, p = columns.p;

    std::size_t row_bytes() const { return 64; }
    void responses(const Batch& batch, const Weight*, double, double* out) const {
        for (std::size_t r = 0; r < batch.count; ++r)
            out[r] = u[batch.rows[r]].load(std::memory_order_relaxed);
    }
    void add(std::size_t i, double factor, std::size_t first, std::size_t count, double* v) const {
        for (std::size_t k = 0; k < count; ++k) v[k] += factor * columns.at(i, first + k);
    }
    void moved(std::size_t j, double change) const {
        if (j < p)
            columns.add(j, change, u);
        else
            for (auto& each : u) add_loosely(each, change);
    }
};

}  // namespace mercer
