// Functions of the Python module for Walsh-Hadamard transforms, as bindings.cpp does it for the
// rest.
#include "arguments.hpp"
#include "hadamard.hpp"

#include <nanobind/nanobind.h>

#include <bit>
#include <optional>
#include <string>

using namespace nb::literals;
using namespace mercer;

namespace {

void transform(nb::handle a_, bool along_rows, int n_threads) {
    const Buffer a(a_.ptr(), "a", {Type::f32, Type::f64}, 2, true);
    const std::size_t rows = a.extent(0), width = a.extent(1), length = along_rows ? width : rows;
    if (!std::has_single_bit(length))
        a.fail("must have a power of two of " + std::string(along_rows ? "columns" : "rows"),
               std::to_string(length));
    with_float(a.type(), [&](auto zero) {
        using T = decltype(zero);
        nb::gil_scoped_release released;
        if (along_rows)
            hadamard(a.data<T>(), rows, length, n_threads);
        else
            hadamard_columns(a.data<T>(), length, width, n_threads);
    });
}

void fastfood_features(nb::handle X, nb::handle factors_, nb::handle order_, nb::handle gains_,
                       nb::handle lengths_, nb::handle phases_, double scale, nb::handle out_,
                       int n_threads) {
    const Buffer points(X.ptr(), "X", {Type::f32, Type::f64}, 2);
    const Type type = points.type();
    const Buffer factors(factors_.ptr(), "factors", {type}, 2);
    const Buffer order(order_.ptr(), "order", {Type::u32}, 2);
    const Buffer gains(gains_.ptr(), "gains", {type}, 2);
    const Buffer lengths(lengths_.ptr(), "lengths", {type}, 1);
    const Buffer out(out_.ptr(), "out", {type}, 2, true);
    const std::size_t n = points.extent(0), d = points.extent(1), m = lengths.extent(0);
    const std::size_t n_blocks = order.extent(0), length = order.extent(1);
    if (!std::has_single_bit(length) || length < d)
        order.fail("must have a power of two of columns, as many as X or more",
                   std::to_string(length));
    if (m > n_blocks * length)
        lengths.fail("must have no more entries than order", std::to_string(m));
    factors.expect_shape({n_blocks, d});
    gains.expect_shape({n_blocks, length});
    const auto* places = order.data<const std::uint32_t>();
    for (std::size_t i = 0; i < n_blocks * length; ++i)
        if (places[i] >= length)
            order.fail("must be below its number of columns", std::to_string(places[i]));
    std::optional<Buffer> phases;
    if (!phases_.is_none()) {
        phases.emplace(phases_.ptr(), "phases", std::initializer_list{type}, 1);
        phases->expect_shape({m});
    }
    out.expect_shape({n, phases ? m : 2 * m});
    with_float(type, [&](auto zero) {
        using T = decltype(zero);
        const Fastfood<T> work{points.data<const T>(),
                               factors.data<const T>(),
                               places,
                               gains.data<const T>(),
                               lengths.data<const T>(),
                               phases ? phases->data<const T>() : nullptr,
                               n,
                               d,
                               length,
                               m,
                               static_cast<T>(scale),
                               out.data<T>()};
        nb::gil_scoped_release released;
        fastfood(work, n_threads);
    });
}

}  // namespace

void add_hadamard(nb::module_& m) {
    m.def(
        "hadamard", [](nb::handle a, int n_threads) { transform(a, true, n_threads); }, "a"_a,
        "n_threads"_a);
    m.def(
        "hadamard_columns", [](nb::handle a, int n_threads) { transform(a, false, n_threads); },
        "a"_a, "n_threads"_a);
    m.def("fastfood", &fastfood_features, "X"_a, "factors"_a, "order"_a, "gains"_a, "lengths"_a,
          "phases"_a.none(), "scale"_a, "out"_a, "n_threads"_a);
}
