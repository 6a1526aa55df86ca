// Functions of the Python module for bitmaps of columns, as bindings.cpp does it for the rest.
#include "bits.hpp"
#include "arguments.hpp"
#include "bin_lists.hpp"

#include <nanobind/nanobind.h>

#include <string>

using namespace nb::literals;
using namespace mercer;

namespace {

std::vector<BinColumn> bin_columns(const Buffer& columns, const BinArguments& bins) {
    std::vector<BinColumn> found;
    std::size_t grid = 0;
    std::int64_t before = -1;
    for (std::size_t k = 0; k < columns.extent(0); ++k) {
        const std::int64_t column = columns.data<const std::int64_t>()[k];
        if (column <= before || column >= bins.starts[bins.n_grids])
            columns.fail("must ascend and be columns of the grids", std::to_string(column));
        while (bins.starts[grid + 1] <= column) ++grid;
        found.push_back({grid, static_cast<std::uint32_t>(column - bins.starts[grid])});
        before = column;
    }
    return found;
}

// Rows of a binned matrix: all of them, or those that `order` names.
struct RowArguments {
    RowArguments(Arrays& arrays, Array<Type::u32> order_, std::size_t n) : count(n) {
        if (order_.is_none()) return;
        const Buffer& order = arrays.read(order_, "order", 1);
        expect_below<std::uint32_t>(order, n, "the number of rows");
        count = order.extent(0);
        places = order.data<const std::uint32_t>();
    }
    const std::uint32_t* places = nullptr;
    std::size_t count;
};

void columns(Codes codes_, Integers offsets, Integers columns_, Array<Type::u32> order_,
             Array<Type::u64> out_, Threads n_threads) {
    Arrays arrays;
    const BinArguments bins(arrays, codes_, offsets);
    const Buffer& wanted = arrays.read(columns_, "columns", 1);
    const Buffer& out = arrays.write(out_, "out", 2);
    const auto found = bin_columns(wanted, bins);
    const RowArguments rows(arrays, order_, bins.n);
    out.expect_shape({found.size(), bit_words(rows.count)});
    with_code(bins.codes.type(), [&](auto code) {
        using Code = decltype(code);
        const Released released(arrays);
        pack_columns(bins.codes.data<const Code>(), bins.n, found, rows.places, rows.count,
                     out.data<std::uint64_t>(), n_threads);
    });
}

void lists(Codes codes_, Integers offsets, Integers columns_, Array<Type::u32> order_,
           Integers starts_, Array<Type::u32> rows_, Threads n_threads) {
    Arrays arrays;
    const BinArguments bins(arrays, codes_, offsets);
    const Buffer& wanted = arrays.read(columns_, "columns", 1);
    const Buffer& starts = arrays.write(starts_, "starts", 1);
    const Buffer& out = arrays.write(rows_, "rows", 1);
    const auto found = bin_columns(wanted, bins);
    const RowArguments rows(arrays, order_, bins.n);
    starts.expect_shape({found.size() + 1});
    with_code(bins.codes.type(), [&](auto code) {
        using Code = decltype(code);
        const Released released(arrays);
        const BinLists<Code> all(bins.codes.data<const Code>(), bins.n, found, rows.places,
                                 rows.count);
        auto* ends = starts.data<std::int64_t>();
        all.count(ends, n_threads);
        if (static_cast<std::size_t>(ends[found.size()]) > out.extent(0))
            throw std::invalid_argument("rows must have room for " +
                                        std::to_string(ends[found.size()]) + " entries; got " +
                                        std::to_string(out.extent(0)) + ".");
        all.fill(ends, out.data<std::uint32_t>(), n_threads);
    });
}

void products(Array<Type::u64> left_, Array<Type::u64> right_, Array<Type::u32> weights_,
              double scale, Doubles out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& left = arrays.read(left_, "left", 2);
    const Buffer& right = arrays.read(right_, "right", 2);
    const Buffer& out = arrays.write(out_, "out", 2);
    const std::size_t n_words = left.extent(1), n_blocks = n_words / kBlockWords;
    if (n_words % kBlockWords != 0)
        left.fail("must have rows of whole blocks of 8 words", std::to_string(n_words));
    right.expect_shape({right.extent(0), n_words});
    out.expect_shape({left.extent(0), right.extent(0)});
    const BitSides sides{left.data<const std::uint64_t>(),
                         right.data<const std::uint64_t>(),
                         left.extent(0),
                         right.extent(0),
                         n_blocks,
                         arrays.optional(weights_, "weights", n_blocks)};
    const Released released(arrays);
    count_shared(sides, scale, out.data<double>(), n_threads);
}

}  // namespace

void add_bits(nb::module_& m) {
    m.def("bit_columns", &columns, "codes"_a, "offsets"_a, "columns"_a, "order"_a.none(), "out"_a,
          "n_threads"_a,
          R"(out (p, words): which rows of ``order``, or of all, have a code in each of the
``columns``, ascending.

Rows come in blocks of 512, the last one filled up with zeros: 8 words of 64 bits a
block.)");
    m.def(
        "bin_lists", &lists, "codes"_a, "offsets"_a, "columns"_a, "order"_a.none(), "starts"_a,
        "rows"_a, "n_threads"_a,
        R"(rows[starts[k]:starts[k + 1]]: positions in ``order``, or all rows, that have the code of
the k-th of ``columns``, which ascend. ``rows`` needs room for all of them; as many as
there are rows for every grid is enough.)");
    m.def(
        "bit_products", &products, "left"_a, "right"_a, "weights"_a.none(), "scale"_a, "out"_a,
        "n_threads"_a,
        R"(out (a, b) = scale * weighted counts of the rows that columns share; one weight a block.
The same array twice: half of it is counted. Counts are exact on every processor.)");
}
