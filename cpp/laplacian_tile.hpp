// The Laplacian kernel as a product, without an exponential of a pair: |t - u| is 2 max(t, u) - t -
// u, so that exp(-sum |t - u|) is the square of the product of the lesser ones of exp(-t) and
// exp(-u), times exp(sum t) and exp(sum u). An input takes a comparison and a multiplication.
// Included only by files compiled once per level.
#pragma once

#include "elementary.hpp"
#include "product_tile.hpp"

namespace mercer {
namespace {

template <class T>
void laplacian_tile(const LaplacianTile<T>& tile) {
    const T* weights = tile.weights;
    for (std::size_t first = 0; first < tile.rows; first += kLeft, weights += kLeft * tile.k) {
        PanelSums<T> entries;
        for (auto& row : entries)
            for (Vector<T>& entry : row) entry = broadcast(T(1));
        accumulate(tile.left + first * tile.depth, tile.right, tile.depth, entries,
                   [](Vector<T> product, Vector<T> x, Vector<T> y, std::size_t)
                       MERCER_INLINE_BODY { return product * smaller(x, y); });
        for (auto& row : entries)
            for (Vector<T>& entry : row) entry *= entry;
        for (std::size_t c = 0; c < tile.k; ++c)
            for (int v = 0; v < kRightVectors; ++v) {
                Vector<T> total = broadcast(T(0));
                for (std::size_t i = 0; i < kLeft; ++i)
                    total += broadcast(weights[i * tile.k + c]) * entries[i][v];
                T numbers[lanes<T>];
                store(numbers, total);
                add_widened(tile.sums + c * kRight<T> + v * lanes<T>, numbers);
            }
    }
}

template <class T>
void pack_exponentials(const T* rows, std::size_t count, std::size_t d, std::size_t width,
                       const double* centre, const double* scale, T* panel, T* inverses) {
    pack(rows, count, d, width, panel, [=](T x, std::size_t k) {
        return static_cast<T>((static_cast<double>(x) - centre[k]) * scale[k]);
    });
    for_each_vector<T>(d * width, [&](std::size_t i, std::size_t some) MERCER_INLINE_BODY {
        store_some(panel + i, decay<T>(load_some(panel + i, some)), some);
    });
    double products[kLeft > kRight<T> ? kLeft : kRight<T>];
    for (double& product : products) product = 1.0;
    for (std::size_t k = 0; k < d; ++k)
        for (std::size_t i = 0; i < width; ++i)
            products[i] *= static_cast<double>(panel[k * width + i]);
    for (std::size_t i = 0; i < width; ++i) inverses[i] = static_cast<T>(1.0 / products[i]);
}

}  // namespace
}  // namespace mercer
