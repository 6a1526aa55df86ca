// Rows of a kernel matrix that is never held: made when asked for, and kept for as long as there is
// room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernel_block.hpp"

namespace mercer {

// Where rows of an n by n kernel matrix come from. Row is the type that they are held in.
template <class Row>
class RowSource {
  public:
    explicit RowSource(std::size_t n) : n_(n) {}
    RowSource(const RowSource&) = delete;
    RowSource& operator=(const RowSource&) = delete;
    virtual ~RowSource() = default;

    std::size_t n() const { return n_; }
    // How many rows together cost little more than one.
    virtual std::size_t at_once() const { return 1; }
    // How many columns of them one thread makes best.
    virtual std::size_t columns_at_once() const { return n_; }
    // Row i where the whole matrix is in memory anyway, else null.
    virtual const Row* held(std::size_t) const { return nullptr; }
    // Columns first .. last - 1 of `count` rows, at most at_once(). Threads may call it together.
    virtual void fill(const std::size_t* rows, std::size_t count, std::size_t first,
                      std::size_t last, Row* const* out) const = 0;

  private:
    std::size_t n_;
};

template <class Row>
class MatrixRows : public RowSource<Row> {
  public:
    MatrixRows(const Row* matrix, std::size_t n) : RowSource<Row>(n), matrix_(matrix) {}
    const Row* held(std::size_t i) const override { return matrix_ + i * this->n(); }
    void fill(const std::size_t* rows, std::size_t count, std::size_t first, std::size_t last,
              Row* const* out) const override {
        for (std::size_t r = 0; r < count; ++r)
            std::copy(held(rows[r]) + first, held(rows[r]) + last, out[r]);
    }

  private:
    const Row* matrix_;
};

// A function that fills rows as RowSource::fill does.
template <class Row>
class FunctionRows : public RowSource<Row> {
  public:
    using Function = std::function<void(const std::size_t* rows, std::size_t count,
                                        std::size_t first, std::size_t last, Row* const* out)>;
    FunctionRows(std::size_t n, std::size_t at_once, Function function)
        : RowSource<Row>(n), at_once_(at_once), function_(std::move(function)) {}
    std::size_t at_once() const override { return at_once_; }
    void fill(const std::size_t* rows, std::size_t count, std::size_t first, std::size_t last,
              Row* const* out) const override {
        function_(rows, count, first, last, out);
    }

  private:
    std::size_t at_once_;
    Function function_;
};

// A kernel that the core knows, of dense rows: all of them are packed once, as kernel_block.hpp
// packs columns. T is the type of the arithmetic, In that of the data.
template <class T, class In, class Row>
class DenseRows : public RowSource<Row> {
  public:
    DenseRows(const KernelLoops<T, In>& loops, const KernelWork<In>& work, int n_threads)
        : RowSource<Row>(work.n), loops_(loops), work_(work),
          scale_(work.scale, work.scale + work.d), centre_(work.centre, work.centre + work.d),
          weights_(work.scale, work.scale + work.d),
          columns_(loops_, own_work(), loops.right_width, work.n) {
        const std::size_t width = loops.right_width, n = work.n;
        std::atomic<bool> small{true};
        parallel_for((n + width - 1) / width, n * work.d < kWorthThreads ? 1 : n_threads,
                     [&](std::size_t p, int) {
                         if (!columns_.pack(p, work_.x + p * width * work_.d,
                                            std::min(width, n - p * width)))
                             small = false;
                     });
        if (!small)
            throw std::invalid_argument(
                "X is too large for this kernel: squared distances overflow; rescale it.");
    }
    std::size_t at_once() const override { return loops_.left_width; }
    std::size_t columns_at_once() const override { return 16 * loops_.right_width; }

    void fill(const std::size_t* rows, std::size_t count, std::size_t first, std::size_t last,
              Row* const* out) const override {
        const std::size_t left = loops_.left_width, right = loops_.right_width, d = work_.d;
        std::vector<In> some(count * d), made(left * right);
        for (std::size_t r = 0; r < count; ++r)
            std::copy_n(work_.x + rows[r] * d, d, some.data() + r * d);
        PackedRows<T, In> points(loops_, work_, left, left);
        points.pack(0, some.data(), count);
        for (std::size_t q = first / right * right; q < last; q += right) {
            const std::size_t width = std::min(right, this->n() - q);
            loops_.tile(work_.kind,
                        {points.numbers.data(), columns_.numbers.data() + q * d,
                         points.squares.data(), columns_.squares.data() + q, some.data(),
                         work_.x + q * d, work_.scale, weights_.data(), d, count, width,
                         static_cast<T>(work_.parameter), made.data(), right, nullptr, nullptr,
                         nullptr, work_.differences, work_.fine});
            const std::size_t from = std::max(q, first), to = std::min(q + width, last);
            for (std::size_t r = 0; r < count; ++r)
                for (std::size_t j = from; j < to; ++j)
                    out[r][j - first] = static_cast<Row>(made[r * right + j - q]);
        }
    }

  private:
    // The caller's arrays of centre and scale need not outlive the constructor.
    const KernelWork<In>& own_work() {
        work_.scale = scale_.data();
        work_.centre = centre_.data();
        return work_;
    }
    const KernelLoops<T, In>& loops_;
    KernelWork<In> work_;
    std::vector<double> scale_, centre_;
    std::vector<T> weights_;
    PackedRows<T, In> columns_;
};

// Rows of `work.x`, which has to outlive the source; `work.y` and `work.m` are not looked at.
// float32 rows have the arithmetic of `accuracy`, which is float32 with `single`.
template <class In, class Row>
std::unique_ptr<RowSource<Row>> dense_rows(KernelWork<In> work, int n_threads,
                                           Accuracy accuracy = Accuracy::full) {
    work.y = work.x;
    work.m = work.n;
    const KernelTables& tables = kernel_loops();
    if constexpr (sizeof(In) == 8)
        return std::make_unique<DenseRows<double, In, Row>>(tables.f64, work, n_threads);
    else {
        const Arithmetic arithmetic = arithmetic_of(work, accuracy, n_threads);
        if (arithmetic == Arithmetic::wide && accuracy != Accuracy::single)
            return std::make_unique<DenseRows<double, In, Row>>(tables.f32_in_f64, work, n_threads);
        work.differences = arithmetic == Arithmetic::differences;
        work.fine = accuracy == Accuracy::full;
        return std::make_unique<DenseRows<float, In, Row>>(tables.f32, work, n_threads);
    }
}

// Rows of the source as the rows of `out` (count, n), on all threads.
template <class Row>
void fill_rows(const RowSource<Row>& source, const std::size_t* rows, std::size_t count, Row* out,
               int n_threads) {
    const std::size_t n = source.n(), wide = std::max<std::size_t>(source.columns_at_once(), 1);
    parallel_for((n + wide - 1) / wide, n * count < kWorthThreads / 16 ? 1 : n_threads,
                 [&](std::size_t part, int) {
                     const std::size_t first = part * wide, last = std::min(first + wide, n);
                     std::vector<Row*> to(source.at_once());
                     for (std::size_t r = 0; r < count; r += source.at_once()) {
                         const std::size_t some = std::min(source.at_once(), count - r);
                         for (std::size_t k = 0; k < some; ++k) to[k] = out + (r + k) * n + first;
                         source.fill(rows + r, some, first, last, to.data());
                     }
                 });
}

// The rows used last, or a range of columns of theirs, in a memory of fixed size. For one thread.
template <class Row>
class RowCache {
  public:
    static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

    // Room for as many of n rows as fit, but for `least` at any rate.
    RowCache(std::size_t n, std::size_t width, std::size_t bytes, std::size_t least)
        : width_(width),
          capacity_(
              std::min(n, std::max(least, bytes / std::max<std::size_t>(width * sizeof(Row), 1)))),
          slot_of_(n, none), row_in_(capacity_, none), before_(capacity_), after_(capacity_),
          numbers_(new Row[capacity_ * width]) {
        for (std::size_t s = 0; s < capacity_; ++s) {
            before_[s] = s ? s - 1 : capacity_ - 1;
            after_[s] = s + 1 < capacity_ ? s + 1 : 0;
        }
    }
    std::size_t capacity() const { return capacity_; }
    bool holds(std::size_t row) const { return slot_of_[row] != none; }

    // The row, which becomes the last used one; null if it is not held.
    const Row* find(std::size_t row) {
        const std::size_t slot = slot_of_[row];
        if (slot == none) return nullptr;
        if (slot == oldest_) {
            oldest_ = after_[slot];
        } else {
            unlink(slot);
            link_last(slot);
        }
        return place(slot);
    }
    // Slot for a new row; evicts the least recently used one.
    Row* take(std::size_t row) {
        const std::size_t slot = oldest_;
        if (row_in_[slot] != none) slot_of_[row_in_[slot]] = none;
        row_in_[slot] = row;
        slot_of_[row] = slot;
        oldest_ = after_[slot];
        return place(slot);
    }
    void forget(std::size_t row) {
        const std::size_t slot = slot_of_[row];
        if (slot == none) return;
        slot_of_[row] = row_in_[slot] = none;
        if (slot == oldest_) return;
        unlink(slot);
        link_last(slot);
        oldest_ = slot;
    }

  private:
    Row* place(std::size_t slot) const { return numbers_.get() + slot * width_; }
    void unlink(std::size_t slot) {
        after_[before_[slot]] = after_[slot];
        before_[after_[slot]] = before_[slot];
    }
    void link_last(std::size_t slot) {  // the ring's last used one stands before its oldest
        const std::size_t last = before_[oldest_];
        after_[last] = before_[oldest_] = slot;
        before_[slot] = last;
        after_[slot] = oldest_;
    }
    std::size_t width_, capacity_, oldest_ = 0;
    std::vector<std::size_t> slot_of_, row_in_, before_, after_;
    std::unique_ptr<Row[]> numbers_;
};

}  // namespace mercer
