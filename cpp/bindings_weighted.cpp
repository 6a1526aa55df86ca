// Functions of the Python module for weighted bins and for the sizes of bins, as bindings.cpp does
// it for the rest.
#include "arguments.hpp"
#include "occupancy.hpp"
#include "weighing.hpp"
#include "weighted_products.hpp"

#include <nanobind/nanobind.h>

using namespace nb::literals;
using namespace mercer;

namespace {

Window checked_window(double taper) {
    if (!(taper > 0.0 && taper <= 1.0))
        throw std::invalid_argument("taper must be above 0 and at most 1; got " +
                                    std::to_string(taper) + ".");
    return make_window(taper);
}

void weigh_rows(const Arrays& arrays, const Data& data, const GridArguments& arguments,
                double taper, double scale, int n_threads) {
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
void weighted_product(nb::handle codes_, nb::handle values_, nb::handle offsets, nb::handle operand,
                      nb::handle out, int power, int n_threads) {
    ProductArguments arguments(product, codes_, offsets, operand, out);
    const BinArguments& bins = arguments.bins;
    const std::size_t k = arguments.k;
    const Buffer& values = arguments.arrays.read(values_, "values", {Type::f32}, 2);
    values.expect_shape({bins.n_grids, bins.n});
    if (power < 0 || power > 2)
        throw std::invalid_argument("power must be 0, 1 or 2; got " + std::to_string(power) + ".");
    arguments.run([&]<class Code, class T>(const Code* codes, const T* from, T* to) {
        const WeightedMatrix<Code> Z{codes, values.data<const float>(), bins.starts, bins.n_grids,
                                     bins.n};
        if constexpr (product == Product::matvec)
            weighted_matvec(Z, from, k, to, n_threads);
        else if constexpr (product == Product::rmatvec)
            weighted_rmatvec(Z, from, k, to, power, n_threads);
        else
            weighted_gram_matvec(Z, from, k, to, n_threads);
    });
}

nb::tuple sizes_of_bins(nb::handle codes, nb::handle offsets, Threads n_threads) {
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
    return nb::make_tuple(new_integers(sizes.largest), new_integers(counts), new_integers(n_bins));
}

}  // namespace

void add_weighted(nb::module_& m) {
    m.def("weigh", [](nb::handle X, nb::handle inverse_widths, nb::handle shifts, double taper,
                      double scale, nb::handle out, Threads n_threads) {
        Arrays arrays;
        const Data data(arrays, X);
        weigh_rows(arrays, data, {arrays, data, inverse_widths, shifts, out}, taper, scale,
                   n_threads);
    });
    m.def("weigh", [](nb::handle values, nb::handle indices, nb::handle indptr, std::size_t d,
                      nb::handle inverse_widths, nb::handle shifts, double taper, double scale,
                      nb::handle out, Threads n_threads) {
        Arrays arrays;
        const Data data(arrays, values, indices, indptr, d);
        weigh_rows(arrays, data, {arrays, data, inverse_widths, shifts, out}, taper, scale,
                   n_threads);
    });
    m.def(
        "weighted_matvec",
        [](nb::handle codes, nb::handle values, nb::handle offsets, nb::handle w, nb::handle out,
           Threads n_threads) {
            weighted_product<Product::matvec>(codes, values, offsets, w, out, 1, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "w"_a, "out"_a, "n_threads"_a);
    m.def(
        "weighted_rmatvec",
        [](nb::handle codes, nb::handle values, nb::handle offsets, nb::handle v, nb::handle out,
           int power, Threads n_threads) {
            weighted_product<Product::rmatvec>(codes, values, offsets, v, out, power, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "v"_a, "out"_a, "power"_a, "n_threads"_a);
    m.def(
        "weighted_gram_matvec",
        [](nb::handle codes, nb::handle values, nb::handle offsets, nb::handle v, nb::handle out,
           Threads n_threads) {
            weighted_product<Product::gram>(codes, values, offsets, v, out, 1, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "v"_a, "out"_a, "n_threads"_a);
    m.def("bin_sizes", &sizes_of_bins, "codes"_a, "offsets"_a, "n_threads"_a);
}
