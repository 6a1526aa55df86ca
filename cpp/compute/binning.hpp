// Bin codes of rows in many grids: keys are made run by run, row after row within a grid, and
// handed to a consumer that turns them into codes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "dictionary.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "plan.hpp"
#include "points.hpp"
#include "tiles.hpp"

namespace mercer {

// Consecutive rows of one grid.
struct KeyRun {
    std::size_t grid, first_row;
    std::span<const std::uint64_t> keys;
};
using KeyConsumer = FunctionRef<const KeyRun&>;

constexpr std::size_t kRunRows = 1024;        // keys of a grid kept until they are consumed
constexpr std::size_t kMaxGridBlock = 16;     // grids that pass over a tile while it is near
constexpr std::size_t kFewRows = 10;          // below this, tiles do not pay
constexpr std::size_t kRowsPerCell = 2;       // more cells are not worth a table
constexpr std::size_t kChunkBytes = 4 << 20;  // of transposed numbers per thread

inline std::size_t grid_block(std::size_t n_grids, int n_threads, std::size_t most) {
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    return std::clamp<std::size_t>((n_grids + threads - 1) / threads, 1, most);
}

// The consumer that hashes bins into columns; tiles are hashed without keys in between.
template <class Code>
struct Columns {
    std::uint32_t count;
    Code* codes;
    std::size_t n;  // rows of all runs

    Code* at(std::size_t grid, std::size_t row) const { return codes + grid * n + row; }
    void operator()(const KeyRun& run) const {
        code_loops<Code>().fold(run.keys.data(), run.keys.size(), count,
                                at(run.grid, run.first_row));
    }
};

// The consumer that numbers bins by dictionaries, which learn them; where bins are cells, without
// keys in between.
template <class Code>
struct Insertion {
    std::span<Dictionary> dictionaries;
    Code* codes;
    std::size_t n;  // rows of all runs
    std::atomic<bool>* fits;

    Code* at(std::size_t grid, std::size_t row) const { return codes + grid * n + row; }
    void operator()(const KeyRun& run) const {
        if (*fits && !dictionaries[run.grid].insert(run.keys, at(run.grid, run.first_row)))
            *fits = false;
    }
    // All bits, which no bin has, once the numbers do not fit.
    Code number(std::size_t grid, std::uint64_t key) const {
        constexpr std::size_t most = std::numeric_limits<Code>::max();
        const std::size_t number = dictionaries[grid].find_or_add(key, most);
        if (number == Dictionary::kNone || dictionaries[grid].size() > most) *fits = false;
        return static_cast<Code>(*fits ? number : most);
    }
};

// What one thread needs to turn tiles into keys or columns.
template <class T>
class TileWorker {
  public:
    TileWorker(std::size_t d, std::size_t n_grids, std::size_t rows)
        : run_rows_(std::min((rows + kTileRows - 1) / kTileRows * kTileRows, kRunRows)),
          scratch_(d), plans_(n_grids), keys_(n_grids * run_rows_) {}

    template <class Consumer>
    void run(const Tiles<T>& tiles, const Grids& grids, std::size_t first_grid, std::size_t n_grids,
             Consumer& consume) {
        make_plans(tiles, grids, first_grid, n_grids, 0);
        for_each_part(tiles, [&](std::size_t start, std::size_t rows) {
            for (std::size_t g = 0; g < n_grids; ++g) hash(tiles, start, rows, g);
            for (std::size_t g = 0; g < n_grids; ++g)
                give(tiles, start, rows, first_grid, g, consume);
        });
    }

    // Grids pass together as long as their tables of cells stay near.
    template <class Code>
    void run(const Tiles<T>& tiles, const Grids& grids, std::size_t first_grid, std::size_t n_grids,
             Insertion<Code>& consume) {
        constexpr std::size_t most = kNearBytes / sizeof(Code);
        make_plans(tiles, grids, first_grid, n_grids, std::min(most, tiles.rows() / kRowsPerCell));
        std::vector<Code> numbers;
        for (std::size_t from = 0, stop; from < n_grids; from = stop) {
            std::size_t cells = 0;
            for (stop = from; stop < n_grids; cells += plans_[stop++].cells.count())
                if (cells + plans_[stop].cells.count() > most) break;
            numbers.assign(cells, static_cast<Code>(~Code{0}));
            for_each_part(tiles, [&](std::size_t start, std::size_t rows) {
                Code* table = numbers.data();
                for (std::size_t g = from; g < stop; table += plans_[g++].cells.count())
                    if (plans_[g].cells.count()) {
                        number(tiles, start, rows, first_grid, g, consume, table);
                    } else {
                        hash(tiles, start, rows, g);
                        give(tiles, start, rows, first_grid, g, consume);
                    }
            });
        }
    }

    template <class Code>
    void run(const Tiles<T>& tiles, const Grids& grids, std::size_t first_grid, std::size_t n_grids,
             Columns<Code>& columns) {
        make_plans(tiles, grids, first_grid, n_grids, 0);
        const auto loop = binning_loops<T>().columns.template of<Code>();
        for (std::size_t row = 0; row < tiles.rows(); row += kTileRows) {
            const std::size_t rows = std::min(kTileRows, tiles.rows() - row);
            for (std::size_t g = 0; g < n_grids; ++g) {
                Code* out = columns.at(first_grid + g, tiles.first_row() + row);
                const TileGrid<T> grid = on_tile(tiles, row / kTileRows, g);
                if (rows == whole_blocks(rows)) {
                    loop(grid, rows, columns.count, out);
                } else {
                    Code padded[kTileRows];
                    loop(grid, whole_blocks(rows), columns.count, padded);
                    std::copy_n(padded, rows, out);
                }
            }
        }
    }

  private:
    static std::size_t whole_blocks(std::size_t rows) { return (rows + 127) / 128 * 128; }
    std::uint64_t* keys(std::size_t g) { return keys_.data() + g * run_rows_; }

    void make_plans(const Tiles<T>& tiles, const Grids& grids, std::size_t first_grid,
                    std::size_t n_grids, std::size_t most_cells) {
        for (std::size_t g = 0; g < n_grids; ++g)
            make_plan(plans_[g], grids, first_grid + g, tiles.low(), tiles.high(), tiles.held(),
                      most_cells, scratch_);
    }

    // Calls f(first row, rows) for one run of the tiles after another.
    template <class F>
    void for_each_part(const Tiles<T>& tiles, F f) {
        for (std::size_t start = 0; start < tiles.rows(); start += run_rows_)
            f(start, std::min(run_rows_, tiles.rows() - start));
    }

    // Makes the keys of a run in a grid, and gives them to the consumer.
    void hash(const Tiles<T>& tiles, std::size_t start, std::size_t rows, std::size_t g) {
        for (std::size_t row = 0; row < rows; row += kTileRows)
            binning_loops<T>().hash_tile(on_tile(tiles, (start + row) / kTileRows, g),
                                         whole_blocks(std::min(kTileRows, rows - row)),
                                         keys(g) + row);
    }
    template <class Consumer>
    void give(const Tiles<T>& tiles, std::size_t start, std::size_t rows, std::size_t first_grid,
              std::size_t g, Consumer& consume) {
        consume(KeyRun{first_grid + g, tiles.first_row() + start, {keys(g), rows}});
    }

    // Writes the codes of a run in a grid by the numbers of its cells, which are asked for when a
    // cell is first met.
    template <class Code>
    void number(const Tiles<T>& tiles, std::size_t start, std::size_t rows, std::size_t first_grid,
                std::size_t g, const Insertion<Code>& consume, Code* numbers) {
        const Cells& cells = plans_[g].cells;
        const std::size_t grid = first_grid + g;
        std::uint32_t cell[kTileRows];
        std::uint16_t away[kTileRows];
        for (std::size_t row = start; row < start + rows; row += kTileRows) {
            const std::size_t count = std::min(kTileRows, start + rows - row);
            binning_loops<T>().find_cells(on_tile(tiles, row / kTileRows, g), whole_blocks(count),
                                          static_cast<std::uint32_t>(cells.count()), cell);
            Code* const codes = consume.at(grid, tiles.first_row() + row);
            const std::size_t n_away =
                code_loops<Code>().number_cells(cell, count, numbers, codes, away);
            for (std::size_t i = 0; i < n_away; ++i) {
                Code& known = numbers[cell[away[i]]];
                if (known == static_cast<Code>(~Code{0}))
                    known = consume.number(grid, cells.key(cell[away[i]]));
                codes[away[i]] = known;
            }
        }
    }

    TileGrid<T> on_tile(const Tiles<T>& tiles, std::size_t t, std::size_t g) {
        here_.select(plans_[g], tiles.low(t), tiles.high(t));
        return {tiles.tile(t),      tiles.rounded(t),   here_.edges.data(),
                here_.edges.size(), here_.close.data(), here_.close.size(),
                here_.ramps.data(), here_.ramps.size(), here_.base};
    }

    std::size_t run_rows_;
    PlanScratch scratch_;
    std::vector<Plan<T>> plans_;
    TilePlan<T> here_;
    std::vector<std::uint64_t> keys_;
};

template <class T>
void hash_few_rows(const DensePoints<T>& points, const Grids& grids, int n_threads,
                   KeyConsumer consume) {
    const std::vector<double> rows(points.numbers, points.numbers + points.n * points.d);
    if (points.n * points.d * grids.count < 100000) n_threads = 1;
    const std::size_t block = grid_block(grids.count, n_threads * 4, grids.count);
    parallel_for((grids.count + block - 1) / block, n_threads, [&](std::size_t item, int) {
        std::uint64_t keys[kFewRows];
        for (std::size_t g = item * block; g < std::min((item + 1) * block, grids.count); ++g) {
            const std::size_t at = g * grids.d;
            for (std::size_t i = 0; i < points.n; ++i)
                keys[i] = exact_loops().hash_row(rows.data() + i * points.d,
                                                 grids.inverse_widths + at, grids.shifts + at,
                                                 grids.multipliers + at, grids.d, nullptr);
            consume(KeyRun{g, 0, {keys, points.n}});
        }
    });
}

// Calls consume(KeyRun) until every row of every grid has been seen once; the runs of one grid come
// in the order of rows, never two at a time. Consumer is KeyConsumer, Columns or Insertion.
template <class T, class Consumer>
void for_each_run(const DensePoints<T>& points, const Grids& grids, int n_threads,
                  Consumer consume) {
    if (points.n == 0 || grids.count == 0) return;
    if (points.n < kFewRows) return hash_few_rows(points, grids, n_threads, consume);
    if (points.n * grids.count < 50000) n_threads = 1;
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    const std::size_t run_bytes = kRunRows * std::max<std::size_t>(points.d, 1) * sizeof(T);
    const std::size_t n_runs =
        std::clamp<std::size_t>(kChunkBytes * threads / run_bytes, 1, 32 * threads);
    const std::size_t chunk_rows = std::min(points.n, n_runs * kRunRows);
    const std::size_t block = grid_block(grids.count, n_threads, kMaxGridBlock);
    Tiles<T> tiles(points.d, chunk_rows);
    std::vector<TileWorker<T>> workers(threads, TileWorker<T>(points.d, block, chunk_rows));
    for (std::size_t first = 0; first < points.n; first += chunk_rows) {
        tiles.load(points, first, std::min(chunk_rows, points.n - first), grids.count, n_threads);
        parallel_for((grids.count + block - 1) / block, n_threads, [&](std::size_t b, int thread) {
            const std::size_t g = b * block;
            workers[static_cast<std::size_t>(thread)].run(
                tiles, grids, g, std::min(block, grids.count - g), consume);
        });
    }
}

template <class T, class I>
constexpr auto sparse_loop() {
    if constexpr (sizeof(I) == 4)
        return binning_loops<T>().hash_sparse_32;
    else
        return binning_loops<T>().hash_sparse_64;
}

// kGridLanes grids interleaved, and the keys of the zero vector in them. Lanes beyond the last grid
// repeat it.
inline void interleave(const Grids& grids, std::size_t first_grid, std::vector<GridGroup>& groups,
                       std::uint64_t* zero_keys) {
    groups.resize(grids.d);
    const std::vector<double> zeros(grids.d);
    std::vector<std::int32_t> codes(grids.d);
    for (std::size_t lane = 0; lane < kGridLanes; ++lane) {
        const std::size_t at = std::min(first_grid + lane, grids.count - 1) * grids.d;
        const double *inverse_widths = grids.inverse_widths + at, *shifts = grids.shifts + at;
        const std::uint64_t* multipliers = grids.multipliers + at;
        zero_keys[lane] = exact_loops().hash_row(zeros.data(), inverse_widths, shifts, multipliers,
                                                 grids.d, codes.data());
        for (std::size_t j = 0; j < grids.d; ++j) {
            groups[j].inverse_width[lane] = inverse_widths[j];
            groups[j].shift[lane] = shifts[j];
            groups[j].multiplier[lane] = multipliers[j];
            groups[j].at_zero[lane] =
                multiply_packed(static_cast<std::uint32_t>(codes[j]), multipliers[j]);
        }
    }
}

template <class T, class I>
void for_each_run(const SparsePoints<T, I>& points, const Grids& grids, int n_threads,
                  KeyConsumer consume) {
    if (points.n == 0 || grids.count == 0) return;
    const auto loop = sparse_loop<T, I>();
    const std::size_t n_groups = (grids.count + kGridLanes - 1) / kGridLanes;
    parallel_for(n_groups, n_threads, [&](std::size_t group, int) {
        const std::size_t first_grid = group * kGridLanes;
        std::vector<GridGroup> parameters;
        std::uint64_t zero_keys[kGridLanes];
        interleave(grids, first_grid, parameters, zero_keys);
        std::vector<std::uint64_t> keys(kGridLanes * kRunRows);
        for (std::size_t first = 0; first < points.n; first += kRunRows) {
            const std::size_t rows = std::min(kRunRows, points.n - first);
            loop(points.values, points.inputs, points.row_starts + first, rows, parameters.data(),
                 zero_keys, keys.data(), kRunRows);
            for (std::size_t g = first_grid; g < std::min(first_grid + kGridLanes, grids.count);
                 ++g)
                consume(KeyRun{g, first, {keys.data() + (g - first_grid) * kRunRows, rows}});
        }
    });
}

// Codes are grid-major: codes[g * n + i]. False if a dictionary outgrew `Code`.
template <class Points, class Code>
bool insert_codes(std::span<Dictionary> dictionaries, const Points& points, const Grids& grids,
                  Code* codes, int n_threads) {
    std::atomic<bool> fits{true};
    for_each_run(points, grids, n_threads, Insertion<Code>{dictionaries, codes, points.n, &fits});
    return fits;
}

// Returns the number of (row, grid) pairs whose bin is unknown.
template <class Points, class Code>
std::size_t lookup_codes(std::span<const Dictionary> dictionaries, const Points& points,
                         const Grids& grids, Code* codes, int n_threads) {
    std::atomic<std::size_t> unknown{0};
    const auto lookup = [&](const KeyRun& run) {
        Code* out = codes + run.grid * points.n + run.first_row;
        unknown += dictionaries[run.grid].lookup(run.keys, out);
    };
    for_each_run(points, grids, n_threads, KeyConsumer(lookup));
    return unknown;
}

// Codes below n_columns, spread evenly, without a dictionary.
template <class Points, class Code>
void hash_codes(const Points& points, const Grids& grids, std::uint32_t n_columns, Code* codes,
                int n_threads) {
    for_each_run(points, grids, n_threads, Columns<Code>{n_columns, codes, points.n});
}

}  // namespace mercer
