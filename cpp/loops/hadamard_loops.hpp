// Walsh-Hadamard transforms as plain functions on plain memory, a table per instruction-set level
// as in loops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mercer {

// H of order 1 is 1, H of order 2 L is (H, H; H, -H): its entries are 1 and -1, nothing is
// normalised. Butterflies go from neighbours to ever farther numbers, so that sums are rounded
// alike on every processor. `work` below is aligned to 64 bytes and never part of the data.

// One block of Fastfood: the products of S H G P H B with `lanes` samples x, where B has the
// `factors` of the inputs (zeros where the order of H exceeds their number) on its diagonal, P
// takes entry order[i] to place i, G and S have `gains` and `lengths` on theirs.
template <class T>
struct FastfoodBlock {
    const T* factors;            // (d)
    const std::uint32_t* order;  // (length), each below `length`
    const T* gains;              // (length)
    const T* lengths;            // (columns)
    std::size_t d, length, columns;
};

template <class T>
struct HadamardLoops {
    std::size_t lanes;                      // numbers of a vector
    void (*row)(T* a, std::size_t length);  // in place
    // In place, along the rows: `width` numbers of each of `length` rows, which are `step` apart;
    // `work` has room for `length` times `width`.
    void (*columns)(T* rows, std::size_t length, std::size_t step, std::size_t width, T* work);
    // `count` rows of d numbers, at most `lanes` of them, as d groups of `lanes`
    void (*pack)(const T* rows, std::size_t count, std::size_t d, T* tile);
    // to (count, columns), rows `step` apart; `work` has room for 2 `length` groups of `lanes`.
    void (*fastfood)(const T* tile, std::size_t count, const FastfoodBlock<T>& block, T* to,
                     std::size_t step, T* work);
};

struct HadamardTable {
    HadamardLoops<float> f32;
    HadamardLoops<double> f64;
};

}  // namespace mercer
