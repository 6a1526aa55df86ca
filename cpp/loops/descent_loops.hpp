// The hot loops of coordinate descent as plain functions on plain memory, a table per
// instruction-set level as in loops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mercer {

// Coordinate descent minimises a quadratic model of a mean of losses plus an elastic net,
//     (1/n) sum_i (g_i e_i + h_i e_i^2 / 2) + sum_j (l1_j |w_j| + l2_j w_j^2 / 2),
// e = Z (w - w_before). What it keeps is the slope g_i + h_i e_i of every row, in float64. Without
// an array of curvatures all h_i are 1.

// sum of column_i slope_i
template <class T>
using DenseSlope = double(const T* column, const double* slope, std::size_t n);
// slope_i += step column_i h_i
template <class T>
using DenseMove = void(const T* column, const double* curvature, double step, double* slope,
                       std::size_t n);

// The same for the rows that a sparse column names; without values they are all 1.
template <class T>
using SparseSlope = double(const std::uint32_t* rows, const T* values, const double* slope,
                           std::size_t count);
template <class T>
using SparseMove = void(const std::uint32_t* rows, const T* values, const double* curvature,
                        double step, double* slope, std::size_t count);

// Sweeps over p variables of a model whose gradient is kept: a change of w_j by d adds d times row
// j of `hessian` (p, p) to `gradient`. Returns the largest change of a sweep times its curvature.
using SweepGram = double(const double* hessian, std::size_t p, const double* l1, const double* l2,
                         double* w, double* gradient);

// For sparse rows, those of row i name columns[starts[i] .. starts[i + 1]): moves = Z x, and
// product
// += Z' diag(h) Z x. Without values they are all 1.
using RowProducts = void(const std::int64_t* starts, const std::uint32_t* columns,
                         const double* values, const double* curvature, std::size_t n,
                         const double* x, double* moves, double* product);

template <class T>
struct ColumnLoops {
    DenseSlope<T>* dense_slope;
    DenseMove<T>* dense_move;
    SparseSlope<T>* sparse_slope;
    SparseMove<T>* sparse_move;
};
struct DescentLoops {
    ColumnLoops<float> f32;
    ColumnLoops<double> f64;
    SweepGram* sweep_gram;
    RowProducts* row_products;
};

}  // namespace mercer
