// The Laplacian kernel as a product, without an exponential of a pair: |t - u| is 2 max(t, u) - t -
// u, so that exp(-sum |t - u|) is the square of the product of the lesser ones of exp(-t) and
// exp(-u), times exp(sum t) and exp(sum u). An input takes a comparison and a multiplication.
// Included only by files compiled once per level.
#pragma once

#include "elementary.hpp"
#include "product_tile.hpp"

namespace mercer {
namespace {

void laplacian_tile(const LaplacianTile& tile) {
    using V = Vector<double>;
    const double* weights = tile.weights;
    for (std::size_t first = 0; first < tile.rows; first += kLeft, weights += kLeft * tile.k) {
        PanelSums<double> entries;
        for (auto& row : entries)
            for (V& entry : row) entry = broadcast(1.0);
        accumulate(tile.left + first * tile.depth, tile.right, tile.depth, entries,
                   [](V product, V x, V y, std::size_t)
                       MERCER_INLINE_BODY { return product * smaller(x, y); });
        for (auto& row : entries)
            for (V& entry : row) entry *= entry;
        for (std::size_t c = 0; c < tile.k; ++c)
            for (int v = 0; v < kRightVectors; ++v) {
                V total = broadcast(0.0);
                for (std::size_t i = 0; i < kLeft; ++i)
                    total += broadcast(weights[i * tile.k + c]) * entries[i][v];
                double* sums = tile.sums + c * kRight<double> + v * lanes<double>;
                store(sums, load(sums) + total);
            }
    }
}

void pack_exponentials(const double* rows, std::size_t count, std::size_t d, std::size_t width,
                       const double* centre, const double* scale, double* panel, double* inverses) {
    pack(rows, count, d, width, panel,
         [=](double x, std::size_t k) { return (x - centre[k]) * scale[k]; });
    for_each_vector<double>(d * width, [&](std::size_t i, std::size_t some) MERCER_INLINE_BODY {
        store_some(panel + i, decay<double>(load_some(panel + i, some)), some);
    });
    double products[kLeft > kRight<double> ? kLeft : kRight<double>];
    for (double& product : products) product = 1.0;
    for (std::size_t k = 0; k < d; ++k)
        for (std::size_t i = 0; i < width; ++i) products[i] *= panel[k * width + i];
    for (std::size_t i = 0; i < width; ++i) inverses[i] = 1.0 / products[i];
}

}  // namespace
}  // namespace mercer
