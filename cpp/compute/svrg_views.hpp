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

// Asks memory for what is read soon.
inline void fetch(const void* p) {
#if defined(__GNUC__)
    __builtin_prefetch(p, 0, 2);
#else
    (void)p;
#endif
}

// The rows that a step looks at, and those after them that later steps are known to want.
struct Batch {
    const std::uint32_t* rows;
    std::size_t count, known;
};

// A view of any kind: steps are compiled once for all of them. `w` are the weights, `narrow` the
// same in float32, which views that are `single` read.
class View {
  public:
    View(std::size_t n_, std::size_t p_, bool single_, bool keeps_)
        : n(n_), p(p_), single(single_), keeps(keeps_) {}
    View(const View&) = delete;
    virtual ~View() = default;
    virtual std::size_t row_bytes() const = 0;
    virtual void responses(const Batch& batch, const double* w, const float* narrow,
                           double intercept, double* out) const = 0;
    virtual void add(const Batch& batch, const double* factors, std::size_t from, std::size_t width,
                     double* v) const = 0;
    virtual void moved(std::size_t j, double change) const = 0;
    const std::size_t n, p;
    const bool single;
    const bool keeps;  // whether responses are kept, so that moves are told
};

template <class Of>
class ViewOf final : public View {
  public:
    static constexpr bool is_single = std::is_same_v<typename Of::Weight, float>;
    explicit ViewOf(const Of& of) : View(of.n, of.p, is_single, Of::keeps), of_(of) {}
    std::size_t row_bytes() const override { return of_.row_bytes(); }
    void responses(const Batch& batch, const double* w, const float* narrow, double intercept,
                   double* out) const override {
        if constexpr (is_single)
            of_.responses(batch, narrow, intercept, out);
        else
            of_.responses(batch, w, intercept, out);
    }
    void add(const Batch& batch, const double* factors, std::size_t from, std::size_t width,
             double* v) const override {
        of_.add(batch, factors, from, width, v);
    }
    void moved(std::size_t j, double change) const override {
        if constexpr (Of::keeps) of_.moved(j, change);
    }

  private:
    const Of& of_;
};

template <class T>
struct DenseRows {
    using Weight = std::conditional_t<std::is_same_v<T, double>, double, float>;
    static constexpr bool keeps = false;
    const T* numbers;  // n rows of p
    std::size_t n, p;

    std::size_t row_bytes() const { return p * sizeof(T); }
    void responses(const Batch& batch, const Weight* w, double intercept, double* out) const {
        const T* rows[2 * group];
        for (std::size_t first = 0; first < batch.count; first += group) {
            const std::size_t count = std::min(batch.count - first, group);
            const std::size_t known = std::min(batch.known - first, 2 * group);
            for (std::size_t r = 0; r < known; ++r) rows[r] = numbers + batch.rows[first + r] * p;
            loops().dots(rows, count, known, w, p, out + first);
        }
        for (std::size_t r = 0; r < batch.count; ++r) out[r] += intercept;
    }
    // v_k += sum over the rows i of the batch of factor_i z_{i, from + k}, k < width
    void add(const Batch& batch, const double* factors, std::size_t from, std::size_t width,
             double* v) const {
        const T* rows[group];
        for (std::size_t first = 0; first < batch.count; first += group) {
            const std::size_t count = std::min(batch.count - first, group);
            for (std::size_t r = 0; r < count; ++r)
                rows[r] = numbers + batch.rows[first + r] * p + from;
            loops().add(rows, factors + first, count, width, v);
        }
    }

  private:
    static constexpr std::size_t group = 32;
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
    void add(const Batch& batch, const double* factors, std::size_t from, std::size_t width,
             double* v) const {
        for (std::size_t r = 0; r < batch.count; ++r) {
            const auto* end = columns + starts[batch.rows[r] + 1];
            for (const auto* c =
                     std::lower_bound(columns + starts[batch.rows[r]], end, from, below);
                 c < end && static_cast<std::size_t>(*c) < from + width; ++c)
                v[static_cast<std::size_t>(*c) - from] +=
                    factors[r] * static_cast<double>(values[c - columns]);
        }
    }

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
    void add(const Batch& batch, const double* factors, std::size_t from_, std::size_t width,
             double* v) const {
        const auto from = static_cast<std::int64_t>(from_);
        const auto to = static_cast<std::int64_t>(from_ + width);
        const auto grid = static_cast<std::size_t>(
            std::upper_bound(starts, starts + n_grids + 1, from) - starts - 1);
        for (std::size_t r = 0; r < batch.count; ++r) {
            const Code* row = codes + batch.rows[r] * n_grids;
            for (std::size_t g = grid; g < n_grids && starts[g] < to; ++g) {
                const std::int64_t column = starts[g] + static_cast<std::int64_t>(row[g]);
                if (column >= from && column < to && column < starts[g + 1])
                    v[column - from] += factors[r] * scale;
            }
        }
    }
};

using Margins = std::vector<std::atomic<double>>;

// u += change, by one thread alone or by several of which no addition is lost.
template <bool alone>
void add_to(std::atomic<double>& u, double change) {
    double before = u.load(std::memory_order_relaxed);
    if constexpr (alone)
        u.store(before + change, std::memory_order_relaxed);
    else
        while (!u.compare_exchange_weak(before, before + change, std::memory_order_relaxed)) {
        }
}

// Columns of an array, one after the other.
template <class T>
struct ColumnArray {
    const T* numbers;  // p columns of n
    std::size_t n, p;

    double at(std::size_t i, std::size_t j) const {
        return static_cast<double>(numbers[j * n + i]);
    }
    template <bool alone>
    void add(std::size_t j, double change, Margins& u) const {
        const T* column = numbers + j * n;
        for (std::size_t i = 0; i < n; ++i)
            add_to<alone>(u[i], change * static_cast<double>(column[i]));
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
    template <bool alone>
    void add(std::size_t j, double change, Margins& u) const {
        for (auto e = starts[j]; e < starts[j + 1]; ++e)
            add_to<alone>(u[rows[e]], change * value(e));
    }
};

// Responses kept for all rows, those of the intercept included.
template <class Columns>
struct Kept {
    using Weight = float;
    static constexpr bool keeps = true;
    Kept(const Columns& columns_, Margins& u_, bool alone_)
        : columns(columns_), u(u_), alone(alone_), n(columns_.n), p(columns_.p) {}
    const Columns& columns;
    Margins& u;
    bool alone;  // whether one thread does all steps
    std::size_t n, p;

    std::size_t row_bytes() const { return 64; }
    void responses(const Batch& batch, const Weight*, double, double* out) const {
        for (std::size_t r = 0; r < batch.count; ++r)
            out[r] = u[batch.rows[r]].load(std::memory_order_relaxed);
    }
    void add(const Batch& batch, const double* factors, std::size_t from, std::size_t width,
             double* v) const {
        for (std::size_t k = 0; k < width; ++k)
            for (std::size_t r = 0; r < batch.count; ++r)
                v[k] += factors[r] * columns.at(batch.rows[r], from + k);
    }
    void moved(std::size_t j, double change) const {
        if (alone)
            add<true>(j, change);
        else
            add<false>(j, change);
    }

  private:
    template <bool only>
    void add(std::size_t j, double change) const {
        if (j < p)
            columns.template add<only>(j, change, u);
        else
            for (auto& each : u) add_to<only>(each, change);
    }
};

}  // namespace mercer
