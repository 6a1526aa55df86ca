// Functions of the Python module for weighted bins and for the sizes of bins, as bindings.cpp does
// it for the rest.
#include "arguments.hpp"
#include "occupancy.hpp"
#include "weighing.hpp"
#include "weighted_products.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

using namespace nb::literals;
using namespace mercer;

namespace {

Window checked_window(double taper) {
    if (!(taper > 0.0 && taper <= 1.0))
        throw std::invalid_argument("taper must be above 0 and at most 1; got " +
                                    std::to_string(taper) + ".");
    return make_window(taper);
}

void weigh_rows(AnyRows X, Doubles inverse_widths, Doubles shifts, double taper, double scale,
                Array<Type::f32> out, Threads n_threads) {
    Arrays arrays;
    const Data data(arrays, X);
    const GridArguments arguments(arrays, data, inverse_widths, shifts, out);
    const Window window = checked_window(taper);
    auto* entries = arguments.out.data<float>();
    const Released released(arrays);
    std::visit(
        [&](const auto& points) {
            weigh(points, arguments.grids, window, scale, entries, n_threads);
        },
        data.points);
}

template <Product product>
void weighted_product(Codes codes_, Array<Type::f32> values_, Integers offsets, Floats operand,
                      Floats out, int power, int n_threads) {
    ProductArguments arguments(product, codes_, offsets, operand, out);
    const BinArguments& bins = arguments.bins;
    const std::size_t k = arguments.k;
    const Buffer& values = arguments.arrays.read(values_, "values", 2);
    values.expect_shape({bins.n_grids, bins.n});
    if (power < 0 || power > 2)
        throw std::invalid_argument("power must be 0, 1 or 2; got " + std::to_string(power) + ".");
    arguments.run([&]<class T>(const void* codes, std::size_t code_bytes, const T* from, T* to) {
        const WeightedMatrix Z{codes,       code_bytes,   values.data<const float>(),
                               bins.starts, bins.n_grids, bins.n};
        if constexpr (product == Product::matvec)
            weighted_matvec(Z, from, k, to, n_threads);
        else if constexpr (product == Product::rmatvec)
            weighted_rmatvec(Z, from, k, to, power, n_threads);
        else
            weighted_gram_matvec(Z, from, k, to, n_threads);
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

void add_weighted(nb::module_& m) {
    m.def("weigh", &weigh_rows, "X"_a, "inverse_widths"_a, "shifts"_a, "taper"_a, "scale"_a,
          "out"_a, "n_threads"_a,
          R"(Write the entries (G, n) of the rows of X in grids with these parameters (G, d), data
and parameters as for ``BinTable``.

The entry of a row in a grid is scale times the product over inputs of g(s), s being the
position x_j * inverse_width_j - shift_j less its floor. With m = min(s, 1 - s), g is
sqrt(1 / (1 - taper / 2)) times sin(pi * min(m / taper, 1 / 2)), taper above 0 and at
most 1.)");
    m.def(
        "weighted_matvec",
        [](Codes codes, Array<Type::f32> values, Integers offsets, Floats w, Floats out,
           Threads n_threads) {
            weighted_product<Product::matvec>(codes, values, offsets, w, out, 1, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "w"_a, "out"_a, "n_threads"_a,
        R"(out (n) = Z w, with the entry ``values`` (G, n) of every row in every grid.

Codes, offsets and operands are those of ``binned_matvec``; codes that are not below
their grid's number of columns stand for no entry.)");
    m.def(
        "weighted_rmatvec",
        [](Codes codes, Array<Type::f32> values, Integers offsets, Floats v, Floats out, int power,
           Threads n_threads) {
            weighted_product<Product::rmatvec>(codes, values, offsets, v, out, power, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "v"_a, "out"_a, "power"_a, "n_threads"_a,
        R"(out (D) = P' v, where P is Z of ``weighted_matvec`` with its entries raised to
``power``: 0, 1 or 2.)");
    m.def(
        "weighted_gram_matvec",
        [](Codes codes, Array<Type::f32> values, Integers offsets, Floats v, Floats out,
           Threads n_threads) {
            weighted_product<Product::gram>(codes, values, offsets, v, out, 1, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "v"_a, "out"_a, "n_threads"_a,
        R"(out (n) = Z (Z' v) in one pass, Z as for ``weighted_matvec``. Bit-identical for equal
``n_threads``.)");
    m.def("bin_sizes", &sizes_of_bins, "codes"_a, "offsets"_a, "n_threads"_a,
          R"(Rows in the fullest column of every grid (G); the numbers of rows, at least 1, that
columns have, ascending; and how many columns have each.)");
}
