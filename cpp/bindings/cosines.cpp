// Functions of the Python module for cosines and Walsh-Hadamard transforms, as bindings.cpp does it
// for the rest.
#include "arguments.hpp"
#include "cosine.hpp"
#include "hadamard.hpp"

#include <nanobind/nanobind.h>

#include <bit>
#include <string>

using namespace nb::literals;
using namespace mercer;

namespace {

void cosines(Floats X, Floats frequencies_, nb::handle phases_, double scale, Floats out_,
             Threads n_threads) {
    Arrays arrays;
    const Buffer& points = arrays.read(X, "X", 2);
    const Type type = points.type();
    const Buffer& frequencies = arrays.read(frequencies_, "frequencies", {type}, 2);
    const Buffer& out = arrays.write(out_, "out", {type}, 2);
    const std::size_t n = points.extent(0), d = points.extent(1), m = frequencies.extent(0);
    frequencies.expect_shape({m, d});
    out.expect_shape({n, phases_.is_none() ? 2 * m : m});
    with_float(type, [&](auto zero) {
        using T = decltype(zero);
        const Cosines<T> work{points.data<const T>(),
                              frequencies.data<const T>(),
                              arrays.optional<T>(phases_, "phases", type, m),
                              n,
                              d,
                              m,
                              static_cast<T>(scale),
                              out.data<T>()};
        const Released released(arrays);
        cosine_block(work, n_threads);
    });
}

void products(Floats X, Floats frequencies_, Floats phases_, double scale, Doubles weights_,
              Doubles sums_, Threads n_threads) {
    Arrays arrays;
    const Buffer& points = arrays.read(X, "X", 2);
    const Type type = points.type();
    const Buffer& frequencies = arrays.read(frequencies_, "frequencies", {type}, 2);
    const Buffer& phases = arrays.read(phases_, "phases", {type}, 1);
    const Buffer& weights = arrays.read(weights_, "weights", 2);
    const Buffer& sums = arrays.write(sums_, "sums", 2);
    const std::size_t n = points.extent(0), d = points.extent(1), m = frequencies.extent(0);
    const std::size_t k = weights.extent(1);
    frequencies.expect_shape({m, d});
    phases.expect_shape({m});
    weights.expect_shape({m, k});
    sums.expect_shape({n, k});
    with_float(type, [&](auto zero) {
        using T = decltype(zero);
        const Cosines<T> work{points.data<const T>(),
                              frequencies.data<const T>(),
                              phases.data<const T>(),
                              n,
                              d,
                              m,
                              static_cast<T>(scale),
                              nullptr};
        const Released released(arrays);
        cosine_product(work, weights.data<const double>(), k, sums.data<double>(), n_threads);
    });
}

void cosines_inplace(Floats values_, Floats phases_, double scale, Threads n_threads) {
    Arrays arrays;
    const Buffer& values = arrays.write(values_, "values", 2);
    const Buffer& phases = arrays.read(phases_, "phases", {values.type()}, 1);
    phases.expect_shape({values.extent(1)});
    with_float(values.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        cosine_inplace(values.data<T>(), phases.data<const T>(), values.extent(0), values.extent(1),
                       static_cast<T>(scale), n_threads);
    });
}

void pairs_from(Floats arguments_, double scale, Floats out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& arguments = arrays.read(arguments_, "arguments", 2);
    const Buffer& out = arrays.write(out_, "out", {arguments.type()}, 2);
    out.expect_shape({arguments.extent(0), 2 * arguments.extent(1)});
    with_float(arguments.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        cosine_pairs_from(arguments.data<const T>(), arguments.extent(0), arguments.extent(1),
                          static_cast<T>(scale), out.data<T>(), n_threads);
    });
}

void transform(Floats a_, bool along_rows, int n_threads) {
    Arrays arrays;
    const Buffer& a = arrays.write(a_, "a", 2);
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

void fastfood_features(Floats X, Floats factors_, Array<Type::u32> order_, Floats gains_,
                       Floats lengths_, Floats phases_, double scale, Floats out_,
                       Threads n_threads) {
    Arrays arrays;
    const Buffer& points = arrays.read(X, "X", 2);
    const Type type = points.type();
    const Buffer& factors = arrays.read(factors_, "factors", {type}, 2);
    const Buffer& order = arrays.read(order_, "order", 2);
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

void add_cosines(nb::module_& m) {
    m.def(
        "cosine_block",
        [](Floats X, Floats frequencies, Floats phases, double scale, Floats out,
           Threads n_threads) { cosines(X, frequencies, phases, scale, out, n_threads); },
        "X"_a, "frequencies"_a, "phases"_a, "scale"_a, "out"_a, "n_threads"_a,
        R"(out (n, m) = scale * cos(X @ frequencies.T + phases), all float32 or all float64.

Errors of the cosine itself: 2e-7 for float32 arguments up to 1e4, 1e-15 for float64
ones up to 1e6; beyond, digits are lost as they are in the argument. Values never leave
[-scale, scale].)");
    m.def(
        "cosine_pairs",
        [](Floats X, Floats frequencies, double scale, Floats out, Threads n_threads) {
            cosines(X, frequencies, nb::none(), scale, out, n_threads);
        },
        "X"_a, "frequencies"_a, "scale"_a, "out"_a, "n_threads"_a,
        R"(out (n, 2 m): column 2 s = scale * cosine, column 2 s + 1 = scale * sine of X @
frequencies[s].)");
    m.def("cosine_product", &products, "X"_a, "frequencies"_a, "phases"_a, "scale"_a, "weights"_a,
          "sums"_a, "n_threads"_a,
          R"(sums (n, k) += scale * cos(X @ frequencies.T + phases) @ weights, the cosines as by
``cosine_block``, times weights (m, k) in float64; none is held. Neither the number of threads
nor the other rows change a bit of a row.)");
    m.def("cosine_inplace", &cosines_inplace, "values"_a, "phases"_a, "scale"_a, "n_threads"_a,
          "values (n, m) = scale * cos(values + phases).");
    m.def("cosine_pairs_from", &pairs_from, "arguments"_a, "scale"_a, "out"_a, "n_threads"_a,
          "out (n, 2 m) from arguments (n, m), as ``cosine_pairs``.");
    m.def(
        "hadamard", [](Floats a, Threads n_threads) { transform(a, true, n_threads); }, "a"_a,
        "n_threads"_a, R"(a (m, L) = a @ H in place: every row is transformed. L is a power of two.

H of order 1 is 1, H of order 2 L is (H, H; H, -H): unnormalised, H H = L times the
identity. Results are the same to the last bit on every processor and for any number of
threads.)");
    m.def(
        "hadamard_columns", [](Floats a, Threads n_threads) { transform(a, false, n_threads); },
        "a"_a, "n_threads"_a,
        R"(a (L, m) = H @ a in place: every column is transformed, as by ``hadamard``.)");
    m.def("fastfood", &fastfood_features, "X"_a, "factors"_a, "order"_a, "gains"_a, "lengths"_a,
          "phases"_a.none(), "scale"_a, "out"_a, "n_threads"_a,
          R"(out (n, m) = scale * cos(projections + phases), or without phases (n, 2 m) pairs as
``cosine_pairs``. The projections of block b are ``lengths * H @ (gains[b] * (H @
(factors[b] * x))[order[b]])``, x padded with zeros to L, H as for ``hadamard``.

X is (n, d), ``factors`` (b, d), ``order`` and ``gains`` (b, L) with L a power of two of
at least d, entries of ``order`` below L; ``lengths`` and ``phases`` (m), m at most b L.)");
}
