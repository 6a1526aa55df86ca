// Functions of the Python module for Shapley values, as bindings.cpp does it for the rest.
#include "shapley.hpp"
#include "arguments.hpp"

#include <nanobind/nanobind.h>

using namespace nb::literals;
using namespace mercer;

namespace {

template <bool interactions>
void shapley_of(Floats factors_, Floats means_, Floats coef_, Doubles nodes_, Doubles weights_,
                Doubles out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& factors = arrays.read(factors_, "factors", 4);
    const std::size_t planes = factors.extent(0), d = factors.extent(1), n = factors.extent(2),
                      m = factors.extent(3);
    if (planes != 1 && planes != 2)
        factors.fail("must have 1 plane, or 2 of complex numbers", std::to_string(planes));
    const Type type = factors.type();
    const Buffer& means = arrays.read(means_, "means", {type}, 3);
    const Buffer& coef = arrays.read(coef_, "coef", {type}, 3);
    const std::size_t k = coef.extent(1);
    means.expect_shape({planes, d, m});
    coef.expect_shape({planes, k, m});
    const Buffer& nodes = arrays.read(nodes_, "nodes", 1);
    const double* weights = arrays.numbers(weights_, "weights", nodes.extent(0));
    const Buffer& out = arrays.write(out_, "out", interactions ? 4 : 3);
    if constexpr (interactions)
        out.expect_shape({n, d, d, k});
    else
        out.expect_shape({n, d + 1, k});
    with_float(type, [&]<class T>(T) {
        const Released released(arrays);
        const ShapleyRow<T> row{d,
                                m,
                                k,
                                nodes.extent(0),
                                planes == 2,
                                factors.data<const T>(),
                                n * m,
                                d * n * m,
                                means.data<const T>(),
                                coef.data<const T>(),
                                nodes.data<const double>(),
                                weights};
        shapley(row, n, interactions, out.data<double>(), n_threads);
    });
}

}  // namespace

void add_shapley(nb::module_& m) {
    m.def(
        "shapley_values", &shapley_of<false>, "factors"_a, "means"_a, "coef"_a, "nodes"_a,
        "weights"_a, "out"_a, "n_threads"_a,
        R"(out (n, d + 1, k): Shapley values of d players in n rows for k functions, then the functions.

A function is the sum over m centres of coef (planes, k, m) times the product over players
of factors (planes, d, n, m); means (planes, d, m) take the place of factors that are not
known. There is one plane of real numbers, or two of complex ones, of which the real part
counts. Integrals over [0, 1] are sums over nodes.)");
    m.def("shapley_interactions", &shapley_of<true>, "factors"_a, "means"_a, "coef"_a, "nodes"_a,
          "weights"_a, "out"_a, "n_threads"_a,
          R"(out (n, d, d, k): Shapley interaction indices of pairs of players, as for
``shapley_values``; 0 on the diagonal.)");
}
