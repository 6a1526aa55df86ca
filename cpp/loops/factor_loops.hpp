// The loops of Cholesky factors as plain functions on plain memory, a table per instruction-set
// level as in loops.hpp.
#pragma once

#include <cstddef>

namespace mercer {

// The upper half of a symmetric matrix in strips of `width` neighbouring columns: strip s has the
// rows 0 .. (s + 1) * width - 1, one after the other, and follows strip s - 1. So a strip is what
// the loops want packed, and half of the square is never held.
static constexpr std::size_t start_of_strip(std::size_t strip, std::size_t width) {
    return strip * (strip + 1) / 2 * width * width;
}

struct FactorLoops {
    std::size_t width;  // of a strip
    std::size_t room;   // bytes that sums of a row need
    // The matrix A, of which what is above the diagonal counts, becomes U with A = U'U; on the
    // diagonal are the reciprocals, below it zeros. The last rows, from `rows` on, are left as they
    // are. False if A is not positive definite in float32.
    bool (*factor)(float* matrix, std::size_t strips, std::size_t rows);
    // sides (count, strips * width) become (U'U)^-1 of them; room (strips * width, room)
    void (*solve)(const float* factor, std::size_t strips, std::size_t count, float* sides,
                  void* room);
    // sums (count, strips * width) -= A * sides, of A with both halves of the squares on the
    // diagonal; the same room
    void (*subtract)(const float* matrix, std::size_t strips, std::size_t count,
                     const double* sides, double* sums, void* room);
    // the same with sums in float32
    void (*subtract_single)(const float* matrix, std::size_t strips, std::size_t count,
                            const float* sides, float* sums, void* room);
};

}  // namespace mercer
