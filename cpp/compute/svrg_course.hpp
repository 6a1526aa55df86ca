// What asynchronous steps are told: the objective, a snapshot, how they are drawn; and the logs by
// which threads tell each other what they changed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "random.hpp"
#include "svrg_views.hpp"

namespace mercer {

// (1/n) sum_i weight_i loss(y_i, z_i w + b) + sum_j (l1_j |w_j| + l2_j w_j^2 / 2); with q = p + 1
// coordinates the last one is the intercept b.
struct Objective {
    const double* y;        // (n)
    const double* weights;  // (n), or null
    LossSlopes* slopes;
    double parameter;
    const double* l1;  // (q)
    const double* l2;  // (q)
    std::size_t q;
};

// H = (1/n) sum_i rows_i z_i z_i' with any rows_i, best the second derivatives at the snapshot:
// with it steps correct the gradient for how far they are from the snapshot, and derivatives of
// rows only for what H does not know.
struct Curvature {
    const float* matrix;   // (q, q)
    const double* rows;    // (n)
    const double* anchor;  // (q): weights of the snapshot
    double scale;          // of H, one over the length of a step
};

struct Snapshot {
    const double* slopes;    // (n): weight_i times the derivative of the loss, less rows_i u_i
    const double* gradient;  // (q): of the mean loss
    const double* steps;     // (q): length of a proximal step
    const Curvature* curvature = nullptr;
};

// Steps first .. first + count - 1. With `supports` the rows of a step are drawn among those where
// its column is not zero.
struct Course {
    std::uint64_t key, slot;
    std::uint64_t first;
    std::size_t count;
    std::size_t batch;  // rows of a step; all of them, each once, if there are no more
    std::size_t width;  // neighbouring coordinates moved by a step
    const ColumnLists* supports;
};

struct Walked {
    std::size_t moves;  // coordinates that changed, counted every time
    bool finite;
};

struct Change {
    double by;
    std::uint32_t coordinate;
};

// What one thread has changed; others see what is published.
class alignas(64) Log {
  public:
    void open(std::size_t room) {
        entries_.reset(new Change[room]);
    }  // untouched: no page is taken
    void note(std::size_t coordinate, double by) {
        entries_[size_++] = {by, static_cast<std::uint32_t>(coordinate)};
    }
    void publish() { published_.store(size_, std::memory_order_release); }
    template <class F>
    void read(std::size_t& seen, F f) const {
        const std::size_t end = published_.load(std::memory_order_acquire);
        for (; seen < end; ++seen) f(entries_[seen]);
    }

  private:
    // Others read the first and the last while the owner writes the other two: a line for each.
    std::unique_ptr<Change[]> entries_;
    alignas(64) std::size_t size_ = 0;
    alignas(64) std::atomic<std::size_t> published_{0};
};

inline double prox(double x, double step, double l1, double l2) {
    const double shrunk = std::copysign(std::max(std::abs(x) - step * l1, 0.0), x);
    return shrunk == 0.0 ? 0.0 : shrunk / (1.0 + step * l2);
}

// Words of 32 random bits of one step: the first chooses the coordinate, one more every row.
inline void draw(const Course& course, std::uint64_t t, std::size_t size, std::uint32_t* words) {
    for (std::size_t position = 0; position < size; position += 8) {
        const Counter block = philox({position / 8, t, course.slot, 0}, course.key, 0);
        for (std::size_t k = 0; k < 8 && position + k < size; ++k)
            words[position + k] = static_cast<std::uint32_t>(block[k / 2] >> (k % 2 ? 32 : 0));
    }
}
inline std::size_t below(std::uint32_t word, std::size_t bound) {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(word) * bound) >> 32);
}

}  // namespace mercer
