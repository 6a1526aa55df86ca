// The hot loops of Shapley values as plain functions on plain memory, a table per instruction-set
// level as in loops.hpp.
#pragma once

#include <cstddef>

namespace mercer {

// A function of one row: the sum over centres c and outputs o of coef[o][c] times the product over
// players j of factors[j][c]; means[j][c] takes the place of a factor that is not known. Numbers
// are real, or complex in two planes, of which the real part counts. Integrals over t from 0 to 1
// of products of mean + t (factor - mean) are sums over nodes.
template <class T>
struct ShapleyRow {
    std::size_t n_players, n_centres, n_outputs, n_nodes;
    bool is_complex;
    const T* factors;
    std::size_t player_step, plane_step;  // from the factors of a player or plane to the next
    const T* means;                       // (planes, players, centres)
    const T* coef;                        // (planes, outputs, centres)
    const double *nodes, *weights;
};

template <class T>
struct ShapleyLoops {
    // Bytes of the room of one call.
    std::size_t (*room)(std::size_t n_players, std::size_t n_outputs, bool is_complex);
    // out (players + 1, outputs): a value per player, then the sum of the products themselves.
    void (*values)(const ShapleyRow<T>& row, void* room, double* out);
    // out (players, players, outputs): symmetric, 0 on the diagonal.
    void (*interactions)(const ShapleyRow<T>& row, void* room, double* out);
};

struct AllShapleyLoops {
    ShapleyLoops<float> f32;
    ShapleyLoops<double> f64;
};

}  // namespace mercer
