// Loops of dual kernel machines, compiled once per instruction-set level with contraction of a*b+c
// allowed, into a table and nothing else: the only symbol of this file.
#include "dual_loops.hpp"
#include "simd.hpp"

#include <limits>

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

constexpr std::size_t kPiece = 256;  // rows whose scores are looked at together
constexpr double kNone = -std::numeric_limits<double>::infinity();

MERCER_INLINE double largest_of(const double* values) {
    constexpr std::size_t step = lanes<double>;
    Vector<double> top = broadcast(kNone);
    for (std::size_t k = 0; k < kPiece; k += step) top = larger(load(values + k), top);
    double lane[step], largest = kNone;
    store(lane, top);
    for (double x : lane) largest = x > largest ? x : largest;
    return largest;
}

// The first of the largest scores, where fill(first, count, scores) says those of a piece.
template <class Fill>
MERCER_INLINE Best best_of(std::size_t n, Fill fill) {
    double scores[kPiece];
    Best best{kNone, n};
    for (std::size_t first = 0; first < n; first += kPiece) {
        const std::size_t count = n - first < kPiece ? n - first : kPiece;
        for (std::size_t k = count; k < kPiece; ++k) scores[k] = kNone;
        fill(first, count, scores);
        const double largest = largest_of(scores);
        if (!(largest > best.score)) continue;
        std::size_t k = 0;
        while (scores[k] != largest) ++k;
        best = {largest, first + k};
    }
    return best;
}

// The slopes h of a piece.
MERCER_INLINE void slopes_of(const BoxRows& box, const double* sums, std::size_t first,
                             std::size_t count, double* h) {
    for (std::size_t k = 0; k < count; ++k)
        h[k] = sums[first + k] + box.extra[first + k] * box.b[first + k] + box.linear[first + k];
}

MERCER_INLINE void moves_of(const BoxRows& box, const double* h, std::size_t first,
                            std::size_t count, double* scores) {
    for (std::size_t k = 0; k < count; ++k) {
        const double b = box.b[first + k];
        double to = b - h[k];
        to = to < box.upper[first + k] ? to : box.upper[first + k];
        to = to > box.lower[first + k] ? to : box.lower[first + k];
        scores[k] = to - b;
    }
}
MERCER_INLINE void make_positive(double* values, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) values[k] = values[k] < 0.0 ? -values[k] : values[k];
}

template <class Row>
void combine(const Row* const* rows, const double* steps, std::size_t n_rows, std::size_t first,
             std::size_t n, double* changes) {
    for (std::size_t k = 0; k < n; ++k) changes[k] = 0.0;
    for (std::size_t r = 0; r < n_rows; ++r) {
        const Row* const row = rows[r] + first;
        const double step = steps[r];
        for (std::size_t k = 0; k < n; ++k) changes[k] += step * static_cast<double>(row[k]);
    }
}

template <class Row>
Best add_and_find(const Row* row, double step, const BoxRows& box, double* sums, std::size_t n) {
    double h[kPiece];
    return best_of(n, [&](std::size_t first, std::size_t count, double* scores) MERCER_INLINE_BODY {
        for (std::size_t k = 0; k < count; ++k)
            sums[first + k] += step * static_cast<double>(row[first + k]);
        slopes_of(box, sums, first, count, h);
        moves_of(box, h, first, count, scores);
        make_positive(scores, count);
    });
}

double moves(const BoxRows& box, const double* sums, std::size_t n, double* out) {
    double h[kPiece], all[kPiece], largest = 0.0;
    for (std::size_t first = 0; first < n; first += kPiece) {
        const std::size_t count = n - first < kPiece ? n - first : kPiece;
        for (std::size_t k = count; k < kPiece; ++k) all[k] = 0.0;
        slopes_of(box, sums, first, count, h);
        moves_of(box, h, first, count, all);
        for (std::size_t k = 0; k < count; ++k) out[first + k] = all[k];
        make_positive(all, count);
        const double most = largest_of(all);
        largest = most > largest ? most : largest;
    }
    return largest;
}

template <class Row>
void add_difference(const Row* row, const Row* other, double step, double* sums, std::size_t n) {
    for (std::size_t k = 0; k < n; ++k)
        sums[k] += step * (static_cast<double>(row[k]) - static_cast<double>(other[k]));
}

Best find_first(const BoxRows& box, const double* sums, std::size_t n, double* largest) {
    double h[kPiece], low[kPiece];
    double steepest = kNone;
    const Best best =
        best_of(n, [&](std::size_t first, std::size_t count, double* scores) MERCER_INLINE_BODY {
            slopes_of(box, sums, first, count, h);
            for (std::size_t k = count; k < kPiece; ++k) low[k] = kNone;
            for (std::size_t k = 0; k < count; ++k) {
                scores[k] = box.b[first + k] < box.upper[first + k] ? -h[k] : kNone;
                low[k] = box.b[first + k] > box.lower[first + k] ? h[k] : kNone;
            }
            const double most = largest_of(low);
            steepest = most > steepest ? most : steepest;
        });
    *largest = steepest;
    return best;
}

template <class Row>
Best find_second(const Row* row, double slope, double own, const double* curvature,
                 const BoxRows& box, const double* sums, std::size_t n) {
    double h[kPiece];
    return best_of(n, [&](std::size_t first, std::size_t count, double* scores) MERCER_INLINE_BODY {
        slopes_of(box, sums, first, count, h);
        for (std::size_t k = 0; k < count; ++k) {
            const double apart = h[k] - slope;
            double along = own + curvature[first + k] - 2.0 * static_cast<double>(row[first + k]);
            along = along > kLeastCurvature ? along : kLeastCurvature;
            const double gain = apart * apart / along;
            const double held = apart > 0.0 ? gain : kNone;
            scores[k] = box.b[first + k] > box.lower[first + k] ? held : kNone;
        }
    });
}

template <class Row>
constexpr DualLoops<Row> loops = {combine<Row>,        add_and_find<Row>, moves,
                                  add_difference<Row>, find_first,        find_second<Row>};

}  // namespace

extern const DualTables MERCER_JOIN(dual_loops_, MERCER_LEVEL);
const DualTables MERCER_JOIN(dual_loops_, MERCER_LEVEL) = {loops<float>, loops<double>};

}  // namespace mercer
