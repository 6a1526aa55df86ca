// Functions of the Python module for bitmaps of columns, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "bits.hpp"

#include <nanobind/nanobind.h>

#include <string>

using namespace nb::literals;
using namespace mercer;

namespace {

std::vector<BinColumn> bin_columns(const Buffer& columns, const Buffer& offsets) {
    const auto* starts = offsets.data<const std::int64_t>();
    const std::size_t n_grids = offsets.extent(0) - 1;
    std::vector<BinColumn> found;
    std::size_t grid = 0;
    std::int64_t before = -1;
    for (std::size_t k = 0; k < columns.extent(0); ++k) {
        const std::int64_t column = columns.data<const std::int64_t>()[k];
        if (column <= before || column >= starts[n_grids])
            columns.fail("must ascend and be columns of the grids", std::to_string(column));
        while (starts[grid + 1] <= column) ++grid;
        found.push_back({grid, static_cast<std::uint32_t>(column - starts[grid])});
        before = column;
    }
    return found;
}

void columns(nb::handle codes_, nb::handle offsets_, nb::handle columns_, nb::handle order_,
             nb::handle out_, int n_threads) {
    const BinArguments bins(codes_, offsets_);
    const Buffer offsets(offsets_.ptr(), "offsets", {Type::i64}, 1),
        wanted(columns_.ptr(), "columns", {Type::i64}, 1),
        out(out_.ptr(), "out", {Type::u64}, 2, true);
    const auto found = bin_columns(wanted, offsets);
    std::optional<Buffer> order;
    std::size_t n_rows = bins.n;
    if (!order_.is_none()) {
        order.emplace(order_.ptr(), "order", std::initializer_list{Type::u32}, 1);
        n_rows = order->extent(0);
        for (std::size_t i = 0; i < n_rows; ++i)
            if (order->data<const std::uint32_t>()[i] >= bins.n)
                order->fail("must name rows",
                            std::to_string(order->data<const std::uint32_t>()[i]));
    }
    out.expect_shape({found.size(), bit_words(n_rows)});
    with_code(bins.codes.type(), [&](auto code) {
        using Code = decltype(code);
        nb::gil_scoped_release released;
        pack_columns(bins.codes.data<const Code>(), bins.n, found,
                     order ? order->data<const std::uint32_t>() : nullptr, n_rows,
                     out.data<std::uint64_t>(), n_threads);
    });
}

void products(nb::handle left_, nb::handle right_, nb::handle weights_, double scale,
              nb::handle out_, int n_threads) {
    const Buffer left(left_.ptr(), "left", {Type::u64}, 2),
        right(right_.ptr(), "right", {Type::u64}, 2), out(out_.ptr(), "out", {Type::f64}, 2, true);
    const std::size_t n_words = left.extent(1);
    if (n_words % kBlockWords != 0)
        left.fail("must have rows of whole blocks of 8 words", std::to_string(n_words));
    right.expect_shape({right.extent(0), n_words});
    out.expect_shape({left.extent(0), right.extent(0)});
    std::optional<Buffer> weights;
    if (!weights_.is_none()) {
        weights.emplace(weights_.ptr(), "weights", std::initializer_list{Type::u32}, 1);
        weights->expect_shape({n_words / kBlockWords});
    }
    const BitSides sides{left.data<const std::uint64_t>(),
                         right.data<const std::uint64_t>(),
                         left.extent(0),
                         right.extent(0),
                         n_words / kBlockWords,
                         weights ? weights->data<const std::uint32_t>() : nullptr};
    nb::gil_scoped_release released;
    count_shared(sides, scale, out.data<double>(), n_threads);
}

}  // namespace

void add_bits(nb::module_& m) {
    m.def("bit_columns", &columns, "codes"_a, "offsets"_a, "columns"_a, "order"_a.none(), "out"_a,
          "n_threads"_a);
    m.def("bit_products", &products, "left"_a, "right"_a, "weights"_a.none(), "scale"_a, "out"_a,
          "n_threads"_a);
}
