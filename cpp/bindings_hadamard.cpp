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

}  // namespace

void add_hadamard(nb::module_& m) {
    m.def(
        "hadamard", [](nb::handle a, int n_threads) { transform(a, true, n_threads); }, "a"_a,
        "n_threads"_a);
    m.def(
        "hadamard_columns", [](nb::handle a, int n_threads) { transform(a, false, n_threads); },
        "a"_a, "n_threads"_a);
}
