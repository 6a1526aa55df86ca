// The hot loops as plain functions on plain memory. Each instruction-set level fills one such table
// (loops_exact.cpp, loops_dense.cpp); isa.hpp picks the table when the module is loaded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "widths.hpp"

namespace mercer {

constexpr std::size_t kNearBytes = 512 << 10;  // what a core's own cache surely holds

// A bin code is floor(x * inverse_width - shift) in float64, clamped to 32 bits. The code adds
// code * low half and code * high half of the input's multiplier, each modulo 2^32, to the low and
// high half of the key of its grid. ("Packed" below: two such halves in one 64-bit word.)

// While an input crosses few bin edges, the code is counted instead of computed: one comparison per
// edge, exact in the type of the data.
template <class T>
struct Edge {
    T threshold;  // the smallest number whose code is above the edge
    std::uint32_t input;
    std::uint64_t multiplier;
};
// An input that crosses many edges. Computed in float32, x * inverse_width - shift - 1/2 gives the
// code by rounding if that moves it by `margin` at most; of no use outside float32.
struct Ramp {
    double inverse_width, shift;
    std::uint64_t multiplier;
    std::uint32_t input;
    float margin;
};

// Grids side by side, as the loop over stored entries of a sparse row wants them.
constexpr std::size_t kGridLanes = 8;
struct alignas(64) GridGroup {
    double inverse_width[kGridLanes], shift[kGridLanes];
    std::uint64_t multiplier[kGridLanes];
    std::uint64_t at_zero[kGridLanes];  // packed contribution of x = 0
};

constexpr std::size_t kTileRows = 512;  // samples hashed together

static inline std::uint64_t add_packed(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t high = (a & 0xffffffff00000000u) + (b & 0xffffffff00000000u);
    return high | static_cast<std::uint32_t>(a + b);
}
static inline std::uint64_t multiply_packed(std::uint32_t factor, std::uint64_t multiplier) {
    return static_cast<std::uint64_t>(factor * static_cast<std::uint32_t>(multiplier >> 32)) << 32 |
           factor * static_cast<std::uint32_t>(multiplier);
}

// The key of one row in one grid; `codes` (d) receives the codes unless null.
using HashRow = std::uint64_t(const double* x, const double* inverse_widths, const double* shifts,
                              const std::uint64_t* multipliers, std::size_t d, std::int32_t* codes);

// Turns `rows` rows of d numbers into a tile: kTileRows numbers per input, the last row repeated as
// often as it takes; and the smallest and the largest number of each input. Of float64 also the
// tile rounded to float32.
template <class T>
using FillTile = void(const T* numbers, std::size_t rows, std::size_t d, T* tile, float* rounded,
                      T* low, T* high);

// What one grid does to a tile; `base` is the key of a sample that crosses nothing. Rounding keeps
// the order of numbers: a rounded one compares with a rounded threshold as they did before, unless
// the two are equal. Edges of float64 where that may be are `close`, all others compare float32.
template <class T>
struct TileGrid {
    const T* tile;
    const float* rounded;  // the tile in float32
    const Edge<float>* edges;
    std::size_t n_edges;
    const Edge<T>* close;
    std::size_t n_close;
    const Ramp* ramps;
    std::size_t n_ramps;
    std::uint64_t base;
};
// The keys of `rows` samples (a multiple of 64) of a tile.
template <class T>
using HashTile = void(const TileGrid<T>& grid, std::size_t rows, std::uint64_t* keys);
// Their cells, below n_cells (cells.hpp): the low halves of keys, the others are not made.
template <class T>
using FindCells = void(const TileGrid<T>& grid, std::size_t rows, std::uint32_t n_cells,
                       std::uint32_t* cells);
// Their codes as FoldKeys below makes them.
template <class T, class Code>
using HashColumns = void(const TileGrid<T>& grid, std::size_t rows, std::uint32_t n_columns,
                         Code* codes);

// The keys of sparse rows in kGridLanes grids; those of one grid lie together, `stride` from the
// next grid's.
template <class T, class Index>
using HashSparse = void(const T* values, const Index* inputs, const Index* row_starts,
                        std::size_t n_rows, const GridGroup* groups, const std::uint64_t* zero_keys,
                        std::uint64_t* keys, std::size_t stride);

// code = a number below n_columns, spread evenly over the keys.
template <class Code>
using FoldKeys = void(const std::uint64_t* keys, std::size_t count, std::uint32_t n_columns,
                      Code* codes);

// Looks up keys in the 2^bits slots of a dictionary (dictionary.hpp): writes the number of every
// key that is at its home, and into `away` the positions of the others; returns how many those are.
template <class Code>
using FindHome = std::size_t(const std::uint64_t* keys, std::size_t count,
                             const std::uint64_t* slots, int bits, Code* codes,
                             std::uint16_t* away);
// Writes the number of each cell, and into `away` the positions of the cells that have none, which
// is told by all bits of a code; returns how many those are.
template <class Code>
using NumberCells = std::size_t(const std::uint32_t* cells, std::size_t count, const Code* numbers,
                                Code* codes, std::uint16_t* away);
static inline std::uint64_t hash_of_key(std::uint64_t key) {
    return key * 0x9E3779B97F4A7C15u;
}

// One pass over the codes of a few grids. A grid's table has a row of `width` numbers per bin, rows
// being `table_step` apart. If `missing`, a code of n_bins or more has no bin: zeros (a row) are
// gathered for it, and what is scattered goes to row n_bins, which the table must then have. With
// `twofold` tables, of width 1, even rows of Z are scattered to the first of two numbers per bin
// and odd ones to the second: equal codes in turn would wait for each other's sums.
constexpr std::size_t kPassGrids = 4;
template <class Number>
struct Pass {
    std::size_t n_grids;  // 4, 2 or 1
    std::size_t width, table_step;
    bool missing;
    bool twofold;
    bool far;                       // whether the tables are too large for a near cache
    const void* codes[kPassGrids];  // of the type that the loop is of
    Number* tables[kPassGrids];
    std::size_t n_bins[kPassGrids];
    Number* zeros;
};

// sums[i * step + q] += table[code of row i][q], over the grids of the pass
template <class T>
using Gather = void(const Pass<const T>& pass, std::size_t rows, T* sums, std::size_t step);
// table[code of row i][q] += numbers[i * step + q], in float64
template <class T>
using Scatter = void(const Pass<double>& pass, std::size_t rows, const T* numbers,
                     std::size_t step);

template <class T>
struct BinningLoops {
    FillTile<T>* fill_tile;
    HashTile<T>* hash_tile;
    FindCells<T>* find_cells;
    template <class Code>
    using Columns = HashColumns<T, Code>*;
    ByWidth<Columns> columns;
    HashSparse<T, std::int32_t>* hash_sparse_32;
    HashSparse<T, std::int64_t>* hash_sparse_64;
};

struct SumLoops {
    Gather<float>* gather_f32;
    Gather<double>* gather_f64;
    Scatter<float>* scatter_f32;
    Scatter<double>* scatter_f64;
};

template <class Code>
struct CodeLoops {
    FoldKeys<Code>* fold;
    FindHome<Code>* find_home;
    NumberCells<Code>* number_cells;
    SumLoops sums;
};

struct ExactLoops {
    HashRow* hash_row;
    BinningLoops<float> f32;
    BinningLoops<double> f64;
    ByWidth<CodeLoops> coded;
};

// ---- dense
// ---------------------------------------------------------------------------------------

// A block of rows against one panel of frequencies, both packed in panels of the widths below.
constexpr std::size_t kCosineRows = 96;  // a multiple of every left_width
template <class T>
struct CosineTile {
    const T* points;
    const T* frequencies;  // per half-turn
    const T* phases;       // in half-turns, a whole panel; null: pairs of cosine and sine
    std::size_t depth, rows, columns;
    T scale;
    T* out;
    std::size_t out_step;
};

template <class T>
struct CosineLoops {
    std::size_t left_width, right_width;
    // `count` rows of length d, count at most `width`, times `factor`, as d groups of `width`
    // numbers
    void (*pack_panel)(const T* rows, std::size_t count, std::size_t d, std::size_t width,
                       double factor, T* panel);
    void (*tile)(const CosineTile<T>& tile);
    void (*row)(const T* arguments, const T* phases, std::size_t n, T scale, T* out);
    void (*pairs_row)(const T* arguments, std::size_t n, T scale, T* out);
};

// Columns of a matrix, from one of its rows on.
template <class T>
struct GramColumns {
    const T* numbers;
    std::size_t row_step, column_step;
    const double* weights;  // of the rows, or null
};

template <class T>
struct GramLoops {
    std::size_t left_width, right_width;
    // `count` columns, at most `width`, as `depth` groups of `width` numbers, times the weights
    void (*pack)(const GramColumns<T>& from, std::size_t depth, std::size_t count,
                 std::size_t width, T* panel);
    // totals (left_width, right_width), rows `step` apart, += left' * right
    void (*tile)(const T* left, const T* right, std::size_t depth, T* totals, std::size_t step);
};

struct DenseLoops {
    CosineLoops<float> f32;
    CosineLoops<double> f64;
    GramLoops<float> gram_f32;
    GramLoops<double> gram_f64;
    // sum_j weights[j] |at - x[j]| over n numbers
    float (*distance_sum_f32)(const float* weights, const float* x, float at, std::size_t n);
    double (*distance_sum_f64)(const double* weights, const double* x, double at, std::size_t n);
};

}  // namespace mercer
