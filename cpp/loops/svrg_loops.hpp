// The hot loops of asynchronous steps as plain functions on plain memory, a table per
// instruction-set level as in loops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "loss.hpp"

namespace mercer {

// The upper half of a float: eight bits of precision.
struct Half {
    std::uint16_t bits;
};

// out[r] = rows[r] . w for r < count. Rows up to rows[known - 1] are asked for next.
template <class T, class W>
using RowDots = void(const T* const* rows, std::size_t count, std::size_t known, const W* w,
                     std::size_t p, double* out);
// v_k += sum_r factors[r] rows[r][k] for k < width
template <class T>
using AddRows = void(const T* const* rows, const double* factors, std::size_t count,
                     std::size_t width, double* v);
// out_i = derivative of the loss at response u_i for target y_i
using LossSlopes = void(const double* u, const double* y, std::size_t n, double parameter,
                        double* out);

// Moves of neighbouring coordinates w towards the minimum of slopes . by + scale by' H by / 2 plus
// the penalty: two sweeps over them, one after the other, from by = 0. Row j of the symmetric H
// begins at matrix + j * stride; slopes end at slopes + scale H by.
using BlockMoves = void(const float* matrix, std::size_t stride, std::size_t size, double scale,
                        const double* w, const double* l1, const double* l2, double* slopes,
                        double* by);

template <class T, class W>
struct RowLoops {
    RowDots<T, W>* dots;
    AddRows<T>* add;
};

struct SvrgLoops {
    RowLoops<float, float> f32;
    RowLoops<double, double> f64;
    RowLoops<Half, float> half;
    LossSlopes* slopes[n_losses];
    BlockMoves* block_moves;
};

}  // namespace mercer
