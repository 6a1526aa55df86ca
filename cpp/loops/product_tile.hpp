// A tile of kernel entries times weights of its rows and of its columns, while it is in the nearest
// cache. Included only by files compiled once per level.
#pragma once

#include "kernel_loops.hpp"
#include "panels.hpp"

namespace mercer {
namespace {

// Numbers of a tile as vectors of the weights' type.
template <class S, class In>
MERCER_INLINE Vector<S> entries(const In* tile) {
    if constexpr (sizeof(S) > sizeof(In))
        return widen(tile);
    else
        return load(tile);
}
MERCER_INLINE void add_widened(double* sums, const float* numbers) {
    constexpr int half = lanes<double>;
    store(sums, load(sums) + widen(numbers));
    store(sums + half, load(sums + half) + widen(numbers + half));
}
MERCER_INLINE void add_widened(double* sums, const double* numbers) {
    store(sums, load(sums) + load(numbers));
}

template <class In, class S>
constexpr int kTileVectors = kRight<In> / lanes<S>;  // in a row of a tile
template <class In, class S>
constexpr int kMostWeights = kLeft * kRightVectors / kTileVectors<In, S>;  // of a row, at once

// sums (count, kRight) += weights (rows, count)' * tile (rows, kRight)
template <int count, class In, class S>
void sum_columns_of(const In* tile, std::size_t rows, const S* weights, double* sums) {
    constexpr int vectors = kTileVectors<In, S>;
    Vector<S> totals[count][vectors] = {};
    for (std::size_t i = 0; i < rows; ++i) {
        Vector<S> row[vectors];
        for (int v = 0; v < vectors; ++v) row[v] = entries<S>(tile + v * lanes<S>);
        for (int c = 0; c < count; ++c)
            for (int v = 0; v < vectors; ++v) totals[c][v] += broadcast(weights[c]) * row[v];
        tile += kRight<In>;
        weights += count;
    }
    for (auto& column : totals)
        for (Vector<S>& total : column) {
            S numbers[lanes<S>];
            store(numbers, total);
            add_widened(sums, numbers);
            sums += lanes<S>;
        }
}

// How many weights of a row to take at once where that many are left.
template <class In, class S>
std::size_t weights_at_once(std::size_t left) {
    constexpr std::size_t most = kMostWeights<In, S>;
    constexpr std::size_t counts[] = {1, 2, 4, 6};
    for (std::size_t count : counts)
        if (left <= count && count < most) return count;
    return most;
}

template <class In, class S>
void sum_columns(std::size_t count, const In* tile, std::size_t rows, const S* weights,
                 double* sums) {
    constexpr int most = kMostWeights<In, S>;
    switch (count) {
    case 1: return sum_columns_of<1>(tile, rows, weights, sums);
    case 2: return sum_columns_of<2>(tile, rows, weights, sums);
    case 4:
        if constexpr (most > 4) return sum_columns_of<4>(tile, rows, weights, sums);
        break;
    case 6:
        if constexpr (most > 6) return sum_columns_of<6>(tile, rows, weights, sums);
        break;
    default: break;
    }
    sum_columns_of<most>(tile, rows, weights, sums);
}

// sums (rows, count, lanes) += tile (rows, kRight) * weights (count, kRight)', lane by lane
template <class In, class S>
void sum_rows(const In* tile, std::size_t rows, const S* weights, std::size_t count, S* sums) {
    constexpr int vectors = kTileVectors<In, S>;
    for (std::size_t i = 0; i < rows; ++i) {
        Vector<S> row[vectors];
        for (int v = 0; v < vectors; ++v) row[v] = entries<S>(tile + v * lanes<S>);
        const S* weight = weights;
        for (std::size_t c = 0; c < count; ++c) {
            Vector<S> total = load(sums);
            for (int v = 0; v < vectors; ++v) total += row[v] * load(weight + v * lanes<S>);
            store(sums, total);
            sums += lanes<S>;
            weight += kRight<In>;
        }
        tile += kRight<In>;
    }
}

// totals (count) += the lanes of sums (count, lanes), which become 0
template <class S>
void join_lanes(S* sums, std::size_t count, double* totals) {
    for (std::size_t c = 0; c < count; ++c) {
        S lane[lanes<S>];
        store(lane, load(sums));
        for (int step = lanes<S> / 2; step; step /= 2)
            for (int i = 0; i < step; ++i) lane[i] += lane[i + step];
        totals[c] += static_cast<double>(lane[0]);
        store(sums, broadcast(S(0)));
        sums += lanes<S>;
    }
}

template <class In, class S>
constexpr ProductLoops<In, S> products = {
    kRight<In>,         lanes<S>,        weights_at_once<In, S>,
    sum_columns<In, S>, sum_rows<In, S>, join_lanes<S>};

}  // namespace
}  // namespace mercer
