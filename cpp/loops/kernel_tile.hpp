// Kernels of the rows of two packed panels: sums over inputs in registers, then the profile while
// they are still in the nearest cache.
#pragma once

#include <type_traits>

#include "elementary.hpp"
#include "kernel_loops.hpp"
#include "panels.hpp"
#include "sparse_distances.hpp"

namespace mercer {
namespace {

// ---- sums over inputs ---------------------------------------------------------------------------

// How a pair of numbers joins a sum, and where sums begin.
template <class T>
struct InnerProduct {
    static constexpr T start = 0;
    MERCER_INLINE Vector<T> step(Vector<T> sum, Vector<T> x, Vector<T> y, std::size_t) const {
        return sum + x * y;
    }
    static MERCER_INLINE Vector<T> join(Vector<T> a, Vector<T> b) { return a + b; }
};
template <class T>
struct CityBlock {
    const T* weights;
    static constexpr T start = 0;
    MERCER_INLINE Vector<T> step(Vector<T> sum, Vector<T> x, Vector<T> y, std::size_t k) const {
        return sum + magnitude(x - y) * broadcast(weights[k]);
    }
    static MERCER_INLINE Vector<T> join(Vector<T> a, Vector<T> b) { return a + b; }
};
template <class T>
struct OnePlusSquares {
    const T* weights;
    static constexpr T start = 1;
    MERCER_INLINE Vector<T> step(Vector<T> sum, Vector<T> x, Vector<T> y, std::size_t k) const {
        const Vector<T> t = (x - y) * broadcast(weights[k]);
        return sum * (t * t + broadcast(T(1)));
    }
    static MERCER_INLINE Vector<T> join(Vector<T> a, Vector<T> b) { return a * b; }
};

template <class T>
struct SquaredDifferences {
    static constexpr T start = 0;
    MERCER_INLINE Vector<T> step(Vector<T> sum, Vector<T> x, Vector<T> y, std::size_t) const {
        const Vector<T> t = x - y;
        return sum + t * t;
    }
    static MERCER_INLINE Vector<T> join(Vector<T> a, Vector<T> b) { return a + b; }
};

template <class T>
constexpr std::size_t kPanelSums = static_cast<std::size_t>(kLeft * kRight<T>);

// The sums of the inputs from k on, joined to those before them, into values (kLeft, kRight) and
// registers.
template <class T, class Metric>
MERCER_INLINE void sum_panels(const Metric& metric, const T* left, const T* right, std::size_t k,
                              std::size_t depth, T* values, PanelSums<T>& sums) {
    for (auto& row : sums)
        for (Vector<T>& sum : row) sum = broadcast(Metric::start);
    accumulate(left + k * kLeft, right + k * kRight<T>, depth, sums,
               [&](Vector<T> sum, Vector<T> x, Vector<T> y, std::size_t step)
                   MERCER_INLINE_BODY { return metric.step(sum, x, y, k + step); });
    for (auto& row : sums)
        for (Vector<T>& sum : row) {
            if (k) sum = Metric::join(load(values), sum);
            store(values, sum);
            values += lanes<T>;
        }
}

// ---- squared distances --------------------------------------------------------------------------

// Sum of squares of (x - y) * scale.
template <class X, class Y>
double scaled_square(const X* x, const Y* y, const double* scale, std::size_t d) {
    constexpr std::size_t step = lanes<double>;
    Vector<double> sum = broadcast(0.0);
    std::size_t k = 0;
    for (; k + step <= d; k += step) {
        const Vector<double> t = (widen(x + k) - widen(y + k)) * load(scale + k);
        sum += t * t;
    }
    double lane[step], total = 0.0;
    store(lane, sum);
    for (double part : lane) total += part;
    for (; k < d; ++k) {
        const double t = (static_cast<double>(x[k]) - static_cast<double>(y[k])) * scale[k];
        total += t * t;
    }
    return total;
}

// From inner products (kLeft, kRight) of the rows from `first` on to squared distances.
template <class T, class In>
void square_panels(KernelKind kind, const KernelTile<T, In>& tile, std::size_t first, T* values) {
    constexpr std::size_t right = kRight<T>;
    const Cancelled<T> lost = cancelled<T>(kind, tile.fine);
    const auto doubtful = [=](Vector<T> squares) MERCER_INLINE_BODY {
        const Vector<T> share = broadcast(lost.share) * squares;
        if constexpr (sizeof(T) == 8) return share;
        return share +
               broadcast(lost.beyond) * larger(squares - broadcast(lost.from), broadcast(T(0)));
    };
    Vector<T> nearest = broadcast(T(1));
    const std::size_t rows = tile.rows - first < kLeft ? tile.rows - first : kLeft;
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < right; j += lanes<T>) {
            T* const value = values + i * right + j;
            const Vector<T> squares =
                broadcast(tile.left_squares[first + i]) + load(tile.right_squares + j);
            const Vector<T> square = squares - broadcast(T(2)) * load(value);
            nearest = smaller(nearest, square - doubtful(squares));
            store(value, larger(square, broadcast(T(0))));
        }
    if (!any_not_positive<T>(nearest)) return;
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < tile.columns; ++j) {
            const T squares = tile.left_squares[first + i] + tile.right_squares[j];
            const T beyond = squares > lost.from ? lost.beyond * (squares - lost.from) : T(0);
            if (values[i * right + j] <= lost.share * squares + beyond)
                values[i * right + j] =
                    static_cast<T>(scaled_square(tile.x + (first + i) * tile.depth,
                                                 tile.y + j * tile.depth, tile.scale, tile.depth));
        }
}

// ---- profiles -----------------------------------------------------------------------------------

// Writes profile(value) for the rows from `first` on.
template <class T, class In, class Profile>
MERCER_INLINE void store_profile(const KernelTile<T, In>& tile, std::size_t first, const T* values,
                                 Profile profile) {
    for (std::size_t i = 0; i < kLeft && first + i < tile.rows; ++i) {
        In* const out = tile.out + (first + i) * tile.out_step;
        for_each_vector<T>(tile.columns, [&](std::size_t j, std::size_t count) MERCER_INLINE_BODY {
            const Vector<T> value = profile(load(values + i * kRight<T> + j));
            if (count == static_cast<std::size_t>(lanes<T>)) {
                store_as(out + j, value);
            } else {
                In some[lanes<T>];
                store_as(some, value);
                std::memcpy(out + j, some, count * sizeof(In));
            }
        });
    }
}

template <class T>
MERCER_INLINE Vector<T> reciprocal_of_one_plus(Vector<T> s) {
    return broadcast(T(1)) / (broadcast(T(1)) + s);
}

template <class T, class In>
MERCER_INLINE void store_rooted(KernelKind kind, const KernelTile<T, In>& tile, std::size_t first,
                                const T* values) {
    using V = Vector<T>;
    const V one = broadcast(T(1)), third = broadcast(T(1.0 / 3.0));
    if (kind == KernelKind::exponential)
        store_profile(tile, first, values,
                      [](V s) MERCER_INLINE_BODY { return decay<T>(square_root(s)); });
    else if (kind == KernelKind::matern_3_2)
        store_profile(tile, first, values, [=](V s) MERCER_INLINE_BODY {
            const V r = square_root(s) * broadcast(T(1.73205080756887729353));
            return (one + r) * decay<T>(r);
        });
    else
        store_profile(tile, first, values, [=](V s) MERCER_INLINE_BODY {
            const V r = square_root(s) * broadcast(T(2.23606797749978969641));
            return (one + r + r * r * third) * decay<T>(r);
        });
}

template <class T, class In>
void apply_profile(KernelKind kind, const KernelTile<T, In>& tile, std::size_t first,
                   const T* values) {
    using V = Vector<T>;
    switch (kind) {
    case KernelKind::sqeuclidean:
    case KernelKind::cityblock:
        store_profile(tile, first, values, [](V s) MERCER_INLINE_BODY { return s; });
        break;
    case KernelKind::gaussian:
    case KernelKind::laplacian:
        store_profile(tile, first, values, [](V s) MERCER_INLINE_BODY { return decay<T>(s); });
        break;
    case KernelKind::rational:
        store_profile(tile, first, values,
                      [](V s) MERCER_INLINE_BODY { return reciprocal_of_one_plus<T>(s); });
        break;
    case KernelKind::cauchy:
        store_profile(tile, first, values,
                      [](V p) MERCER_INLINE_BODY { return broadcast(T(1)) / p; });
        break;
    case KernelKind::rational_power:
        if constexpr (sizeof(T) == 8) {
            const V a = broadcast(tile.parameter);
            store_profile(tile, first, values, [=](V s) MERCER_INLINE_BODY {
                return decay<T>(a * log_one_plus(smaller(s / a, broadcast(1e300))));
            });
        }
        break;
    default: store_rooted(kind, tile, first, values);
    }
}

// ---- tiles --------------------------------------------------------------------------------------

// Writes exp(-s) of the sums s straight from the registers.
template <class T, class In>
MERCER_INLINE void store_decays(const KernelTile<T, In>& tile, std::size_t first,
                                const PanelSums<T>& sums) {
    for (std::size_t i = 0; i < kLeft; ++i)
        for (std::size_t v = 0; v < kRightVectors; ++v)
            store_as(tile.out + (first + i) * tile.out_step + v * lanes<T>, decay<T>(sums[i][v]));
}

template <class T, class In, class Metric>
MERCER_INLINE void tile_of(const Metric& metric, KernelKind kind, const KernelTile<T, In>& tile) {
    static_assert(kKernelRows % kLeft == 0);
    T values[kKernelRows / kLeft * kPanelSums<T>];
    // What is summed up from products is corrected before its exponential is taken.
    constexpr bool products = std::is_same_v<Metric, InnerProduct<T>>;
    const bool decays = !products && tile.columns == static_cast<std::size_t>(kRight<T>) &&
                        (kind == KernelKind::gaussian || kind == KernelKind::laplacian);
    // Sums of few float32 products: their errors grow with the length, and squares magnify them.
    constexpr std::size_t longest = sizeof(T) == 4 ? 64 : 128;
    for_each_piece<longest>(tile.depth, [&](std::size_t k, std::size_t depth, bool, bool last) {
        for (std::size_t i = 0; i < tile.rows; i += kLeft) {
            T* const panel = values + i * kRight<T>;
            PanelSums<T> sums;
            sum_panels(metric, tile.left + i * tile.depth, tile.right, k, depth, panel, sums);
            if (!last) continue;
            if (decays && i + kLeft <= tile.rows) {
                store_decays(tile, i, sums);
                continue;
            }
            if constexpr (products) square_panels(kind, tile, i, panel);
            apply_profile(kind, tile, i, panel);
        }
    });
}

// The same with sums over few inputs.
template <class T, class In>
void sparse_tile(KernelKind kind, const KernelTile<T, In>& tile) {
    T values[kPanelSums<T>];
    for (std::size_t first = 0; first < tile.rows; first += kLeft) {
        sparse_distances(tile, first, values);
        apply_profile(kind, tile, first, values);
    }
}

template <class T, class In>
void kernel_tile(KernelKind kind, const KernelTile<T, In>& tile) {
    if (tile.starts)
        sparse_tile(kind, tile);
    else if (kind == KernelKind::cauchy)
        tile_of(OnePlusSquares<T>{tile.weights}, kind, tile);
    else if (is_direct(kind))
        tile_of(CityBlock<T>{tile.weights}, kind, tile);
    else if (!tile.differences)
        tile_of(InnerProduct<T>{}, kind, tile);
    else if constexpr (sizeof(T) == sizeof(float))
        tile_of(SquaredDifferences<T>{}, kind, tile);
}

template <class T, class In>
void pack_raw(const In* rows, std::size_t count, std::size_t d, std::size_t width, T* panel) {
    pack(rows, count, d, width, panel, [](In x, std::size_t) { return static_cast<T>(x); });
}

template <class T, class In>
void pack_centred(const In* rows, std::size_t count, std::size_t d, std::size_t width,
                  const double* centre, const double* scale, T* panel, T* squares) {
    double sums[kLeft > kRight<T> ? kLeft : kRight<T>] = {};
    pack(rows, count, d, width, panel, [=](In x, std::size_t k) {
        return static_cast<T>((static_cast<double>(x) - centre[k]) * scale[k]);
    });
    for (std::size_t k = 0; k < d; ++k)
        for (std::size_t i = 0; i < width; ++i) {
            const double x = static_cast<double>(panel[k * width + i]);
            sums[i] += x * x;
        }
    for (std::size_t i = 0; i < width; ++i) squares[i] = static_cast<T>(sums[i]);
}

}  // namespace
}  // namespace mercer
