// Functions of the Python module for Walsh-Hadamard transforms, as bindings.cpp does it for the
// rest.
#include "arguments.hpp"
#include "hadamard.hpp"

#include <nanobind/nanobind.h>

#include <bit>
#include <string>

using namespace nb::literals;
using namespace mercer;

namespace {

void transform(nb::handle a_, bool along_rows, int n_threads) {
    Arrays arrays;
    const Buffer& a = arrays.write(a_, "a", {Type::f32, Type::f64}, 2);
    const std::size_t rows = a.extent(0), width = a.extent(1), length = along_rows ? width : rows;
    if (!std::has_single_bit(length))
        a.fail("must have a power of two of " + std::string(along_rows ? "columns" : "rows"),
               std::to_string(length));
    with_float(a.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        if (along_rows)
            hadamard(a.data<T>(), rows, length, n_threads);
        else
            hadamard_columns(a.data<T>(), length, width, n_threads);
    });
}

void fastfood_features(nb::handle X, nb::handle factors_, nb::handle order_, nb::handle gains_,
                       nb::handle lengths_, nb::handle phases_, double scale, nb::handle out_,
                       Threads n_threads) {
    Arrays arrays;
    const Buffer& points = arrays.read(X, "X", {Type::f32, Type::f64}, 2);
    const Type type = points.type();
    const Buffer& factors = arrays.read(factors_, "factors", {type}, 2);
    const Buffer& order = arrays.read(order_, "order", {Type::u32}, 2);
    const Buffer& gains = arrays.read(gains_, "gains", {type}, 2);
    const Buffer& lengths = arrays.read(lengths_, "lengths", {type}, 1);
    const Buffer& out = arrays.write(out_, "out", {type}, 2);
    const std::size_t n = points.extent(0), d = points.extent(1), m = lengths.extent(0);
    const std::size_t n_blocks = order.extent(0), length = order.extent(1);
    if (!std::has_single_bit(length) || length < d)
        order.fail("must have a power of two of columns, as many as X or more",
                   std::to_string(length));
    if (m > n_blocks * length)
        lengths.fail("must have no more entries than order", std::to_string(m));
    factors.expect_shape({n_blocks, d});
    gains.expect_shape({n_blocks, length});
    expect_below<std::uint32_t>(order, length, "its number of columns");
    out.expect_shape({n, phases_.is_none() ? 2 * m : m});
    with_float(type, [&](auto zero) {
        using T = decltype(zero);
        const Fastfood<T> work{points.data<const T>(),
                               factors.data<const T>(),
                               order.data<const std::uint32_t>(),
                               gains.data<const T>(),
                               lengths.data<const T>(),
                               arrays.optional<T>(phases_, "phases", type, m),
                               n,
                               d,
                               length,
                               m,
                               static_cast<T>(scale),
                               out.data<T>()};
        const Released released(arrays);
        fastfood(work, n_threads);
    });
}

}  // namespace

void add_hadamard(nb::module_& m) {
    m.def(
        "hadamard", [](nb::handle a, Threads n_threads) { transform(a, true, n_threads); }, "a"_a,
        "n_threads"_a);
    m.def(
        "hadamard_columns", [](nb::handle a, Threads n_threads) { transform(a, false, n_threads); },
        "a"_a, "n_threads"_a);
    m.def("fastfood", &fastfood_features, "X"_a, "factors"_a, "order"_a, "gains"_a, "lengths"_a,
          "phases"_a.none(), "scale"_a, "out"_a, "n_threads"_a);
}
