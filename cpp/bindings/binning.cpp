// Functions of the Python module for random binning, as bindings.cpp does it for the rest.
#include "binning.hpp"
#include "arguments.hpp"
#include "occupancy.hpp"
#include "products.hpp"
#include "responses.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <variant>
#include <vector>

using namespace nb::literals;
using namespace mercer;

namespace {

// Rows of data, and the grids whose boxes they are in.
struct HashArguments {
    HashArguments(AnyRows X, Doubles inverse_widths, Doubles shifts, Array<Type::u64> multipliers,
                  Codes codes)
        : data(arrays, X), grids(arrays, data, inverse_widths, shifts, multipliers, codes) {}
    Arrays arrays;
    Data data;
    GridArguments grids;
};

class BinTable {
  public:
    explicit BinTable(std::size_t n_grids) : dictionaries_(n_grids) {}

    bool insert(std::size_t first_grid, AnyRows X, Doubles inverse_widths, Doubles shifts,
                Array<Type::u64> multipliers, Codes codes_, Threads n_threads) {
        const HashArguments given(X, inverse_widths, shifts, multipliers, codes_);
        const GridArguments& arguments = given.grids;
        const auto part = slice(first_grid, arguments.grids.count);
        return with_code(arguments.out.type(), [&](auto zero) {
            auto* codes = arguments.out.data<decltype(zero)>();
            const Released released(given.arrays);
            const std::unique_lock alone(turns_);
            return std::visit(
                [&](const auto& points) {
                    return insert_codes(part, points, arguments.grids, codes, n_threads);
                },
                given.data.points);
        });
    }

    std::size_t lookup(std::size_t first_grid, AnyRows X, Doubles inverse_widths, Doubles shifts,
                       Array<Type::u64> multipliers, Codes codes_, Threads n_threads) {
        const HashArguments given(X, inverse_widths, shifts, multipliers, codes_);
        const GridArguments& arguments = given.grids;
        const auto part = slice(first_grid, arguments.grids.count);
        return with_code(arguments.out.type(), [&](auto zero) {
            using Code = decltype(zero);
            const Released released(given.arrays);
            const std::shared_lock nobody_inserts(turns_);
            for (const Dictionary& dictionary : part)
                if (dictionary.size() > std::numeric_limits<Code>::max())
                    arguments.out.fail("must be wide enough for every bin and one value more",
                                       std::to_string(dictionary.size()) + " bins");
            auto* codes = arguments.out.data<Code>();
            return std::visit(
                [&](const auto& points) {
                    return lookup_codes(std::span<const Dictionary>(part), points, arguments.grids,
                                        codes, n_threads);
                },
                given.data.points);
        });
    }

    std::size_t add_matvec(std::size_t first_grid, AnyRows X, Doubles inverse_widths,
                           Doubles shifts, Array<Type::u64> multipliers, Floats w_, Floats out_,
                           Threads n_threads) {
        Arrays arrays;
        const Data data(arrays, X);
        return std::visit(
            [&]<class Points>(const Points& points) {
                using T = typename Points::Number;
                constexpr Type type = sizeof(T) == 4 ? Type::f32 : Type::f64;
                Grids grids = read_grids(arrays, points.d, inverse_widths, shifts);
                read_multipliers(arrays, multipliers, grids);
                slice(first_grid, grids.count);
                if (first_grid % kPassGrids)
                    throw std::invalid_argument("first_grid must be a multiple of 4; got " +
                                                std::to_string(first_grid) + ".");
                const Buffer& w = arrays.read(w_, "w", {type}, 0);
                const Buffer& out = arrays.write(out_, "out", {type}, w.ndim());
                const auto expect_length = [&](const Buffer& buffer, std::size_t length) {
                    if (w.ndim() == 1)
                        buffer.expect_shape({length});
                    else
                        buffer.expect_shape({length, w.width()});
                };
                expect_length(out, points.n);
                const Released released(arrays);
                const std::shared_lock nobody_inserts(turns_);
                std::vector<std::int64_t> offsets{0};
                for (const Dictionary& dictionary : dictionaries_)
                    offsets.push_back(offsets.back() +
                                      static_cast<std::int64_t>(dictionary.size()));
                expect_length(w, static_cast<std::size_t>(offsets.back()));
                return add_responses(std::span<const Dictionary>(dictionaries_), offsets.data(),
                                     points, grids, first_grid, w.data<const T>(), w.width(),
                                     out.data<T>(), n_threads);
            },
            data.points);
    }

    // Nothing here calls Python while it holds the table: whoever waits for it holds the
    // interpreter.
    Integers n_bins() const {
        std::vector<std::int64_t> sizes;
        {
            const std::shared_lock nobody_inserts(turns_);
            for (const Dictionary& dictionary : dictionaries_)
                sizes.push_back(static_cast<std::int64_t>(dictionary.size()));
        }
        return new_integers(sizes);
    }

    Array<Type::u64> keys() const {
        std::vector<std::uint64_t> all;
        {
            const std::shared_lock nobody_inserts(turns_);
            for (const Dictionary& dictionary : dictionaries_)
                all.insert(all.end(), dictionary.keys().begin(), dictionary.keys().end());
        }
        auto [result, numbers] = new_array<Type::u64>({all.size()});
        std::copy(all.begin(), all.end(), numbers);
        return result;
    }

    static std::unique_ptr<BinTable> from_keys(Array<Type::u64> keys_, Integers n_bins_,
                                               Threads n_threads) {
        Arrays arrays;
        const Buffer& keys = arrays.read(keys_, "keys", 1);
        const Buffer& n_bins = arrays.read(n_bins_, "n_bins", 1);
        auto table = std::make_unique<BinTable>(n_bins.extent(0));
        std::vector<std::span<const std::uint64_t>> parts;
        std::size_t at = 0;
        for (std::size_t g = 0; g < n_bins.extent(0); ++g) {
            const auto count = static_cast<std::size_t>(n_bins.data<const std::int64_t>()[g]);
            if (count > keys.extent(0) - at) at = keys.extent(0) + 1;
            if (at > keys.extent(0)) break;
            parts.emplace_back(keys.data<const std::uint64_t>() + at, count);
            at += count;
        }
        if (at != keys.extent(0))
            keys.fail("must have as many entries as n_bins says", std::to_string(keys.extent(0)));
        std::atomic<bool> distinct{true};
        {
            const Released released(arrays);
            parallel_for(parts.size(), n_threads, [&](std::size_t g, int) {
                if (!table->dictionaries_[g].assign(parts[g])) distinct = false;
            });
        }
        if (!distinct) keys.fail("must be distinct within a grid", "a repeated one");
        return table;
    }

  private:
    std::span<Dictionary> slice(std::size_t first_grid, std::size_t count) {
        if (first_grid > dictionaries_.size() || count > dictionaries_.size() - first_grid)
            throw std::invalid_argument("first_grid must leave room for " + std::to_string(count) +
                                        " of " + std::to_string(dictionaries_.size()) +
                                        " grids; got " + std::to_string(first_grid) + ".");
        return {dictionaries_.data() + first_grid, count};
    }
    std::vector<Dictionary> dictionaries_;
    mutable std::shared_mutex turns_;
};

void bin_hashed(AnyRows X, Doubles inverse_widths, Doubles shifts, Array<Type::u64> multipliers,
                std::uint64_t n_columns, Codes codes_, Threads n_threads) {
    const HashArguments given(X, inverse_widths, shifts, multipliers, codes_);
    const GridArguments& arguments = given.grids;
    with_code(arguments.out.type(), [&](auto zero) {
        using Code = decltype(zero);
        const std::uint64_t most = std::uint64_t{1} << 8 * std::min<std::size_t>(sizeof(Code), 4);
        if (n_columns < 1 || n_columns > most || n_columns > 0xffffffffu)
            throw std::invalid_argument("n_columns must be at least 1 and fit the codes; got " +
                                        std::to_string(n_columns) + ".");
        auto* codes = arguments.out.data<Code>();
        const Released released(given.arrays);
        std::visit(
            [&](const auto& points) {
                hash_codes(points, arguments.grids, static_cast<std::uint32_t>(n_columns), codes,
                           n_threads);
            },
            given.data.points);
    });
}

template <Product product>
void binned_product(Codes codes_, Integers offsets, Floats operand, Floats out, double scale,
                    bool missing, Threads n_threads) {
    const ProductArguments arguments(product, codes_, offsets, operand, out);
    const BinArguments& bins = arguments.bins;
    const std::size_t k = arguments.k;
    arguments.run([&]<class T>(const void* codes, std::size_t code_bytes, const T* from, T* to) {
        const BinnedMatrix Z{codes, code_bytes, bins.starts, bins.n_grids, bins.n, missing};
        if constexpr (product == Product::matvec)
            matvec(Z, from, k, to, scale, n_threads);
        else if constexpr (product == Product::rmatvec)
            rmatvec(Z, from, k, to, scale, n_threads);
        else
            gram_matvec(Z, from, k, to, scale, n_threads);
    });
}

std::tuple<Integers, Integers, Integers> sizes_of_bins(Codes codes, Integers offsets,
                                                       Threads n_threads) {
    Arrays arrays;
    const BinArguments arguments(arrays, codes, offsets);
    const BinSizes sizes = with_code(arguments.codes.type(), [&](auto code) {
        using Code = decltype(code);
        const Released released(arrays);
        return bin_sizes(arguments.codes.data<const Code>(), arguments.starts, arguments.n_grids,
                         arguments.n, n_threads);
    });
    std::vector<std::int64_t> counts, n_bins;
    for (const auto& [size, bins] : sizes.frequency) {
        counts.push_back(size);
        n_bins.push_back(bins);
    }
    return {new_integers(sizes.largest), new_integers(counts), new_integers(n_bins)};
}

}  // namespace

void add_binning(nb::module_& m) {
    nb::class_<BinTable>(
        m, "BinTable",
        R"(For each of ``n_grids`` grids, a dictionary from the keys of its bins to 0, 1, 2, ...

Lookups may run side by side; an insertion waits until it is alone.

The code of input j in a grid is floor(x_j * inverse_width_j - shift_j): multiply,
subtract and floor in float64, clamped to the range of int32. The key of a bin is
    h1 | h2 << 32,   h1 = sum_j code_j * (multiplier_j mod 2**32) mod 2**32,
                     h2 = sum_j code_j * (multiplier_j >> 32)     mod 2**32.
Data are one array (n, d), or data, indices and indptr of a CSR matrix, the latter two
of one type, and the number d of its columns. No column may occur twice in a row of a
CSR matrix. A sparse matrix and its dense form give the same codes, bit for bit.)")
        .def(nb::init<std::size_t>(), "n_grids"_a)
        .def("insert", &BinTable::insert, "first_grid"_a, "X"_a, "inverse_widths"_a, "shifts"_a,
             "multipliers"_a, "codes"_a, "n_threads"_a,
             R"(Number the bins of the rows of X in grids ``first_grid`` .. ``first_grid`` + G - 1,
given their parameters (G, d), and write ``codes`` (G, n).

Bins new to a grid get the next number, in the order of rows, whatever the number of
threads. False if a grid has more bins than the codes can tell apart from "unknown":
repeat the call with wider codes.)")
        .def(
            "lookup", &BinTable::lookup, "first_grid"_a, "X"_a, "inverse_widths"_a, "shifts"_a,
            "multipliers"_a, "codes"_a, "n_threads"_a,
            R"(Write the number of every row's bin in every grid, ``n_bins`` of the grid where it is
unknown; returns how many are.)")
        .def("add_matvec", &BinTable::add_matvec, "first_grid"_a, "X"_a, "inverse_widths"_a,
             "shifts"_a, "multipliers"_a, "w"_a, "out"_a, "n_threads"_a,
             R"(out (n) += Z w over grids ``first_grid``, a multiple of 4, and on, without codes.

Bit-identical to ``binned_matvec`` of the codes that ``lookup`` writes, with missing
ones, over all grids, whatever the number of threads. w (D) has a number for every bin
of all grids of the table, or (D, k); w and ``out`` are of the type of the data. Returns
how many pairs of row and grid have an unknown bin.)")
        .def_prop_ro("n_bins", &BinTable::n_bins, "Number of bins of each grid (a copy).")
        .def("keys", &BinTable::keys,
             "Keys of all bins, grid after grid, each in the order of its numbers.")
        .def_static("from_keys", &BinTable::from_keys, "keys"_a, "n_bins"_a, "n_threads"_a = 1,
                    "The table with these ``keys()`` and ``n_bins``.");
    m.def("bin_hashed", &bin_hashed, "X"_a, "inverse_widths"_a, "shifts"_a, "multipliers"_a,
          "n_columns"_a, "codes"_a, "n_threads"_a,
          R"(Write codes (G, n) below ``n_columns`` without a dictionary: ``mixed * n_columns >>
32``, where ``a = (h1 ^ h1 >> 16) * 0x7feb352d`` and ``mixed = a ^ a >> 15 ^ h2``, all
in 32 bits; the rest as for ``BinTable.insert``.)");

    m.def("binned_matvec", &binned_product<Product::matvec>, "codes"_a, "offsets"_a, "w"_a, "out"_a,
          "scale"_a, "missing"_a, "n_threads"_a, R"(out (n) = scale * Z w.

Row i of Z (n, D) has a 1 in column offsets[g] + codes[g, i] for each grid g. ``codes``
are (G, n), ``offsets`` (G + 1), with less than 2**32 columns a grid. With ``missing``,
a code that is not below its grid's number of columns stands for no entry; without it
such a code must not occur: memory is read or written out of bounds. Operands and
results are of one type, (length,) or (length, k). Sums over rows are kept in float64,
sums over grids in the type of the operand.)");
    m.def("binned_rmatvec", &binned_product<Product::rmatvec>, "codes"_a, "offsets"_a, "v"_a,
          "out"_a, "scale"_a, "missing"_a, "n_threads"_a,
          "out (D) = scale * Z' v; arguments as for ``binned_matvec``.");
    m.def("binned_gram_matvec", &binned_product<Product::gram>, "codes"_a, "offsets"_a, "v"_a,
          "out"_a, "scale"_a, "missing"_a, "n_threads"_a,
          R"(out (n) = scale * Z (Z' v) in one pass over the codes, arguments as for
``binned_matvec``. ``scale`` is the whole factor: the square of the value of an entry.
Bit-identical for equal ``n_threads``.)");
    m.def("bin_sizes", &sizes_of_bins, "codes"_a, "offsets"_a, "n_threads"_a,
          R"(Rows in the fullest column of every grid (G); the numbers of rows, at least 1, that
columns have, ascending; and how many columns have each.)");
}
