// Views of the data: rows of a dense array, or rows of a compressed sparse matrix.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mercer {

template <class T>
struct DensePoints {
    using Number = T;
    const T* numbers;  // n rows of d
    std::size_t n, d;
};

// Compressed sparse rows; within a row no input occurs twice.
template <class T, class I>
struct SparsePoints {
    using Number = T;
    using Index = I;
    const T* values;
    const I* inputs;
    const I* row_starts;  // n + 1
    std::size_t n, d;
};

// Parameters of `count` grids: row g belongs to grid g.
struct Grids {
    const double* inverse_widths;
    const double* shifts;
    const std::uint64_t* multipliers;
    std::size_t count, d;
};

}  // namespace mercer
