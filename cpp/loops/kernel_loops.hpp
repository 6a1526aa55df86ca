// The hot loops of kernel matrices as plain functions on plain memory, a table per instruction-set
// level as in loops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mercer {

// What is computed from two rows x and y, scaled: t = |x_k - y_k| * scale_k. The first ones are
// functions of s, the sum of t^2; the direct ones take every t by itself.
enum class KernelKind {
    sqeuclidean,     // s
    gaussian,        // exp(-s)
    exponential,     // exp(-sqrt(s))
    matern_3_2,      // (1 + r) exp(-r), r = sqrt(3 s)
    matern_5_2,      // (1 + r + r^2 / 3) exp(-r), r = sqrt(5 s)
    rational,        // 1 / (1 + s)
    rational_power,  // (1 + s / a)^-a, a the parameter
    cityblock,       // sum of t
    laplacian,       // exp(-sum of t)
    cauchy           // product of 1 / (1 + t^2)
};
static constexpr bool is_direct(KernelKind kind) {
    return kind >= KernelKind::cityblock;
}

constexpr std::size_t kKernelRows = 96;  // a multiple of every left_width

// An expanded square |x|^2 + |y|^2 - 2 xy that is small beside S = |x|^2 + |y|^2 has lost too many
// digits to be kept, and is computed from the rows as they came: below
// share * S + beyond * max(S - from, 0). In float32 it has an error of up to 3e-7 S, which a root
// magnifies, and which shows in the kernel only where the square is small and S is not.
template <class T>
struct Cancelled {
    T share, beyond, from;
};
// Where kernels shall be right to 1e-6, squares are looked at from 3 on: above a third of what S is
// beyond that, no kernel shows more of the error than where S is 3.
template <class T>
static constexpr Cancelled<T> cancelled(KernelKind kind, bool fine = false) {
    if (sizeof(T) == 8) return {T(1e-6), T(0), T(0)};
    if (fine) return {T(1e-5), T(1.0 / 3.0), T(3)};
    return {kind == KernelKind::exponential ? T(1e-3) : T(1e-5), T(1e-2), T(32)};
}

// A block of rows against one panel of others, both packed in panels. T is the type of the
// arithmetic, In that of data and results.
template <class T, class In>
struct KernelTile {
    const T *left, *right;                  // as they came (direct kinds) or centred and scaled
    const T *left_squares, *right_squares;  // sums of squares of rows; of magnitudes if sparse
    const In *x, *y;                        // the rows as they came
    const double* scale;                    // (depth)
    const T* weights;                       // the same
    std::size_t depth, rows, columns;
    T parameter;
    In* out;
    std::size_t out_step;
    // Of a sparse tile: rows less the usual numbers and scaled, and the places and values of what
    // is then above and below 0 in every row on the left, (2 rows + 1) starts; else null.
    const std::uint32_t *starts = nullptr, *places = nullptr;
    const T* values = nullptr;
    // Squared distances are summed up from differences, and the squares of rows are not read.
    bool differences = false;
    bool fine = false;  // kernels from inner products shall be right to 1e-6 in float32
};

template <class T, class In>
struct KernelLoops {
    std::size_t left_width, right_width;
    // `count` rows of length d, count at most `width`, as d groups of `width` numbers
    void (*pack_raw)(const In* rows, std::size_t count, std::size_t d, std::size_t width, T* panel);
    // the same centred and scaled, and the sums of their squares (width)
    void (*pack_scaled)(const In* rows, std::size_t count, std::size_t d, std::size_t width,
                        const double* centre, const double* scale, T* panel, T* squares);
    void (*tile)(KernelKind kind, const KernelTile<T, In>& tile);
};

// What becomes of a tile (rows, panel) of kernel entries that is not kept: products with weights of
// type S. Sums of float32 products are short and are joined in float64.
template <class In, class S>
struct ProductLoops {
    std::size_t panel;  // columns of a tile, a multiple of every right_width with that In
    std::size_t lanes;
    // how many weights of a row sum_columns takes where that many are left; it may be more
    std::size_t (*weights_at_once)(std::size_t left);
    // sums (count, panel) += weights (rows, count)' * tile
    void (*sum_columns)(std::size_t count, const In* tile, std::size_t rows, const S* weights,
                        double* sums);
    // sums (rows, count, lanes) += tile * weights (count, panel)', lane by lane
    void (*sum_rows)(const In* tile, std::size_t rows, const S* weights, std::size_t count,
                     S* sums);
    // totals (count) += the lanes of sums (count, lanes), which become 0
    void (*join_lanes)(S* sums, std::size_t count, double* totals);
};

// Entries in [0, 1] as fixed-point numbers: number c stands for c / kMostFixed. Half of the bytes
// of a float32 or float64 entry; 31 bits rather than 32, as processors convert signed numbers.
template <class T>
using Fixed = std::conditional_t<sizeof(T) == 4, std::uint16_t, std::uint32_t>;
template <class T>
constexpr T kMostFixed = sizeof(T) == 4 ? T(65535) : T(2147483647);

// A tile (rows, panel) of such numbers and k weights of each row and column, as ProductLoops has
// them; without weights of columns there are no sums of rows.
constexpr std::size_t kFixedWeights = 4;  // at most, so that their sums stay in registers
template <class T>
struct FixedTile {
    const Fixed<T>* fixed;
    std::size_t rows;
    const T *row_weights, *column_weights;  // (rows, k), (k, panel) or null
    double* column_sums;                    // (k, panel)
    T* row_sums;                            // (rows, k, lanes)
};
template <class T>
struct FixedLoops {
    // numbers in [0, 1] as fixed-point numbers, for whole vectors
    void (*to_fixed)(const T* numbers, std::size_t count, Fixed<T>* fixed);
    void (*multiply[kFixedWeights])(const FixedTile<T>& tile);  // for 1, 2, ... weights
};

// Products of Laplacian kernels, made from exponentials of the rows (laplacian_tile.hpp), and
// weights. There may be more rows on the left than are meant, with weights of 0.
struct LaplacianTile {
    const double *left, *right;  // packed in panels
    std::size_t depth, rows, k;
    const double* weights;  // (rows, k)
    double* sums;           // (k, right_width)
};
struct LaplacianLoops {
    std::size_t left_width, right_width;
    // `count` rows of length d, count at most `width`, as d groups of `width` numbers exp(-t), t
    // being centred and scaled; and exp of the sum of t of every row (width)
    void (*pack)(const double* rows, std::size_t count, std::size_t d, std::size_t width,
                 const double* centre, const double* scale, double* panel, double* inverses);
    // sums += weights' * kernel, of which factors that a row on either side has are left out
    void (*tile)(const LaplacianTile& tile);
};

// Part of a float32 matrix that is held, weights of type T and what becomes of their product.
template <class T>
struct HeldTile {
    const float* matrix;  // (rows, columns), a row every step
    std::size_t step, rows, columns;
    const T* weights;  // (k, columns) by rows, (rows, k) by columns, a row every weights_step
    std::size_t weights_step, k;
    double* sums;  // (rows, k) by rows, (k, columns) by columns
    std::size_t sums_step;
};

// CSR rows, scaled: row j has the numbers starts[j] .. starts[j + 1] - 1.
struct CsrRows {
    const double* values;
    const std::uint32_t* places;
    const std::int64_t* starts;
    const double* sizes;  // of each row the sum of squares, or of magnitudes for direct kinds
};

// `count` of the rows, and columns first .. last - 1 of their kernel with all.
constexpr std::size_t kSparseRows = 8;
template <class Out>
struct CsrTile {
    CsrRows csr;
    const double* dense;      // (d, kSparseRows), these rows side by side
    const std::size_t* rows;  // (count), their numbers
    std::size_t count, first, last;
    double parameter;
    Out* const* out;  // (count) rows
};

// One row, some of others, and weights of theirs.
template <class T, class In>
struct RowProduct {
    const T *x, *scale;         // (d)
    const In* rows;             // (n, d)
    const std::int64_t* order;  // (count), the numbers of the rows
    std::size_t count, d, k;
    T parameter;
    const double* weights;  // (count, k)
    double* sums;           // (k)
};

struct KernelTables {
    KernelLoops<float, float> f32;
    KernelLoops<double, float> f32_in_f64;
    KernelLoops<double, double> f64;
    // sum of squares of (x - centre) * scale
    double (*squared_norm_f32)(const float* x, const double* centre, const double* scale,
                               std::size_t d);
    double (*squared_norm_f64)(const double* x, const double* centre, const double* scale,
                               std::size_t d);
    ProductLoops<float, float> product_f32;
    ProductLoops<float, double> product_f32_in_f64;
    ProductLoops<double, double> product_f64;
    // products of entries of type In with weights of float64
    template <class In>
    const ProductLoops<In, double>& product_in_f64() const {
        if constexpr (sizeof(In) == 4)
            return product_f32_in_f64;
        else
            return product_f64;
    }
    LaplacianLoops laplacian;
    FixedLoops<float> fixed_f32;
    FixedLoops<double> fixed_f64;
    // loops of products and of fixed-point numbers whose entries and weights are of one type
    template <class T>
    const ProductLoops<T, T>& product() const {
        if constexpr (sizeof(T) == 4)
            return product_f32;
        else
            return product_f64;
    }
    template <class T>
    const FixedLoops<T>& fixed() const {
        if constexpr (sizeof(T) == 4)
            return fixed_f32;
        else
            return fixed_f64;
    }
    void (*held_rows)(const HeldTile<double>& tile);     // sums += matrix * weights'
    void (*held_rows_f32)(const HeldTile<float>& tile);  // the same, sums of a tile in float32
    void (*held_columns)(const HeldTile<double>& tile);  // sums += weights' * matrix
    // sums += entries * weights; false, with the sums undefined, if squared distances overflow
    bool (*row_f32)(KernelKind kind, const RowProduct<float, float>& work);
    bool (*row_f32_in_f64)(KernelKind kind, const RowProduct<double, float>& work);
    bool (*row_f64)(KernelKind kind, const RowProduct<double, double>& work);
    void (*sparse_rows_f32)(KernelKind kind, const CsrTile<float>& tile);
    void (*sparse_rows_f64)(KernelKind kind, const CsrTile<double>& tile);
};

}  // namespace mercer
