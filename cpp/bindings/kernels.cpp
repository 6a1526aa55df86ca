// Kernel matrices for the Python module, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "distance_sums.hpp"
#include "fixed_kernel.hpp"
#include "gram.hpp"
#include "held_product.hpp"
#include "kernel_product.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

using namespace nb::literals;
using namespace mercer;

KernelKind kernel_named(const std::string& name);  // also for bindings_dual.cpp

namespace {

constexpr std::string_view kKernelNames[] = {
    "sqeuclidean", "gaussian",       "exponential", "matern_3_2", "matern_5_2",
    "rational",    "rational_power", "cityblock",   "laplacian",  "cauchy"};

// Numbers of a matrix in 16 or 31 bits an entry.
using FixedNumbers = Array<Type::u16, Type::u32>;

// Two sets of rows and the kernel between them.
struct KernelArguments {
    KernelArguments(Arrays& arrays, const std::string& name, Floats X, Floats Y, Doubles centre_,
                    Doubles scale_, double parameter_)
        : kind(kernel_named(name)), x(arrays.read(X, "X", 2)),
          y(Y.is_none() ? x : arrays.read(Y, "Y", {x.type()}, 2)), n(x.extent(0)), m(y.extent(0)),
          d(x.extent(1)), parameter(parameter_) {
        y.expect_shape({m, d});
        centre = arrays.numbers(centre_, "centre", d);
        scale = arrays.numbers(scale_, "scale", d);
    }
    template <class In>
    KernelWork<In> work(In* out) const {
        return {kind, x.data<const In>(), y.data<const In>(), n, m, d, centre, scale, parameter,
                out};
    }
    KernelKind kind;
    const Buffer &x, &y;
    std::size_t n, m, d;
    const double *centre, *scale;
    double parameter;
};

bool fill(const std::string& name, Floats X, Floats Y, Doubles centre, Doubles scale,
          double parameter, Floats out_, Threads n_threads, bool single) {
    Arrays arrays;
    const KernelArguments kernel(arrays, name, X, Y, centre, scale, parameter);
    const Buffer& out = arrays.write(out_, "out", {kernel.x.type()}, 2);
    out.expect_shape({kernel.n, kernel.m});
    return with_float(kernel.x.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        return kernel_block(kernel.work(out.data<T>()), single ? Accuracy::single : Accuracy::full,
                            n_threads);
    });
}

bool multiply_kernel(const std::string& name, Floats X, Floats Y, Doubles centre, Doubles scale,
                     double parameter, Floats w, Doubles out_, Floats v_, Doubles out_of_y_,
                     Threads n_threads, bool single) {
    Arrays arrays;
    const KernelArguments kernel(arrays, name, X, Y, centre, scale, parameter);
    const Buffer& weights =
        kernel.x.type() == Type::f64 ? arrays.read(w, "w", {Type::f64}, 2) : arrays.read(w, "w", 2);
    const Buffer& out = arrays.write(out_, "out", 2);
    const std::size_t n = kernel.n, m = kernel.m, k = weights.extent(1);
    weights.expect_shape({m, k});
    out.expect_shape({n, k});
    const Buffer *v = nullptr, *out_of_y = nullptr;
    if (!v_.is_none()) {
        if (Y.is_none()) throw std::invalid_argument("v must be None where Y is; got an array.");
        v = &arrays.read(v_, "v", {weights.type()}, 2);
        v->expect_shape({n, k});
        out_of_y = &arrays.write(out_of_y_, "out_of_y", 2);
        out_of_y->expect_shape({m, k});
    }
    return with_float(kernel.x.type(), [&](auto zero) {
        return with_float(weights.type(), [&](auto weight) {
            using In = decltype(zero);
            using S = decltype(weight);
            if constexpr (sizeof(S) < sizeof(In)) {
                return false;  // refused above
            } else {
                const ProductWork<In, S> work{kernel.work<In>(nullptr),
                                              k,
                                              weights.data<const S>(),
                                              out.data<double>(),
                                              v ? v->data<const S>() : nullptr,
                                              out_of_y ? out_of_y->data<double>() : nullptr,
                                              Y.is_none()};
                const Released released(arrays);
                return kernel_product(work, single ? Accuracy::single : Accuracy::full, n_threads);
            }
        });
    });
}

std::size_t size_of_fixed(std::size_t n) {
    constexpr std::size_t most = std::size_t{1} << 28;
    if (n > most) throw std::invalid_argument("n must be at most 2^28; got " + std::to_string(n));
    return fixed_size(n);
}

// An array of the fixed-point numbers that go with rows or weights of a type.
template <class T>
constexpr Type fixed_type = sizeof(T) == 4 ? Type::u16 : Type::u32;

bool fill_fixed(const std::string& name, Floats X, Doubles centre, Doubles scale, double parameter,
                FixedNumbers fixed_, Threads n_threads) {
    Arrays arrays;
    const KernelArguments kernel(arrays, name, X, nb::none(), centre, scale, parameter);
    if (kernel.kind == KernelKind::sqeuclidean || kernel.kind == KernelKind::cityblock)
        throw std::invalid_argument("kernel must have values in [0, 1]; got " + name + ".");
    return with_float(kernel.x.type(), [&](auto zero) {
        using T = decltype(zero);
        const Buffer& fixed = arrays.write(fixed_, "fixed", {fixed_type<T>}, 1);
        fixed.expect_shape({size_of_fixed(kernel.n)});
        const Released released(arrays);
        return fixed_kernel(kernel.work<T>(nullptr), fixed.data<Fixed<T>>(), n_threads);
    });
}

void multiply_fixed(FixedNumbers fixed_, Floats w, Doubles out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& weights = arrays.read(w, "w", 2);
    const Buffer& out = arrays.write(out_, "out", 2);
    const std::size_t n = weights.extent(0), k = weights.extent(1);
    out.expect_shape({n, k});
    with_float(weights.type(), [&](auto zero) {
        using T = decltype(zero);
        const Buffer& fixed = arrays.read(fixed_, "fixed", {fixed_type<T>}, 1);
        fixed.expect_shape({size_of_fixed(n)});
        const FixedWork<T> work{fixed.data<const Fixed<T>>(), n, k, weights.data<const T>(),
                                out.data<double>()};
        const Released released(arrays);
        fixed_product(work, n_threads);
    });
}

void add_gram(Floats Z, bool transposed, Doubles weights, Doubles out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& matrix = arrays.read(Z, "Z", 2);
    const std::size_t n = matrix.extent(transposed), d = matrix.extent(!transposed);
    const Buffer& out = arrays.write(out_, "out", 2);
    out.expect_shape({d, d});
    with_float(matrix.type(), [&](auto zero) {
        using T = decltype(zero);
        const GramWork<T> work{
            matrix.data<const T>(), n, d, transposed, arrays.optional(weights, "weights", n),
            out.data<double>()};
        const Released released(arrays);
        gram(work, n_threads);
    });
}

void add_distances(Floats weights_, Floats columns_, Doubles out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& weights = arrays.read(weights_, "weights", 2);
    const std::size_t n = weights.extent(0);
    weights.expect_shape({n, n});
    const Buffer& columns = arrays.read(columns_, "columns", {weights.type()}, 2);
    const std::size_t d = columns.extent(0);
    columns.expect_shape({d, n});
    const Buffer& out = arrays.write(out_, "out", 1);
    out.expect_shape({d});
    with_float(weights.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        distance_sums(weights.data<const T>(), columns.data<const T>(), n, d, out.data<double>(),
                      n_threads);
    });
}

void multiply_held(Array<Type::f32> M, bool transposed, Floats weights_, Doubles out_,
                   Threads n_threads) {
    Arrays arrays;
    const Buffer& matrix = arrays.read(M, "M", 2);
    const Buffer& weights = transposed ? arrays.read(weights_, "weights", {Type::f64}, 2)
                                       : arrays.read(weights_, "weights", 2);
    const Buffer& out = arrays.write(out_, "out", 2);
    const std::size_t n = matrix.extent(0), p = matrix.extent(1);
    const std::size_t k = weights.extent(transposed);
    transposed ? weights.expect_shape({n, k}) : weights.expect_shape({k, p});
    transposed ? out.expect_shape({k, p}) : out.expect_shape({n, k});
    with_float(weights.type(), [&](auto zero) {
        using T = decltype(zero);
        const HeldWork<T> work{
            matrix.data<const float>(), n, p, k, transposed, weights.data<const T>(),
            out.data<double>()};
        const Released released(arrays);
        held_product(work, n_threads);
    });
}

void multiply_blocks(Array<Type::f32> M, Doubles weights_, Doubles out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& matrices = arrays.read(M, "M", 3);
    const Buffer& weights = arrays.read(weights_, "weights", 3);
    const Buffer& out = arrays.write(out_, "out", 3);
    const std::size_t count = matrices.extent(0), side = matrices.extent(1), k = weights.extent(1);
    matrices.expect_shape({count, side, side});
    weights.expect_shape({count, k, side});
    out.expect_shape({count, side, k});
    const HeldBlocks work{matrices.data<const float>(),
                          count,
                          side,
                          k,
                          weights.data<const double>(),
                          out.data<double>()};
    const Released released(arrays);
    held_blocks(work, n_threads);
}

}  // namespace

KernelKind kernel_named(const std::string& name) {
    std::string names;
    for (std::size_t i = 0; i < std::size(kKernelNames); ++i) {
        if (kKernelNames[i] == name) return static_cast<KernelKind>(i);
        names += (i ? ", " : "") + std::string(kKernelNames[i]);
    }
    throw std::invalid_argument("kernel must be one of " + names + "; got " + name + ".");
}

void add_kernels(nb::module_& m) {
    m.def("kernel_block", &fill, "kernel"_a, "X"_a, "Y"_a, "centre"_a, "scale"_a, "parameter"_a,
          "out"_a, "n_threads"_a, "single"_a = false,
          R"(Write the kernel of the rows of X (n, d) and Y (m, d) into ``out`` (n, m).

Of rows x and y, with t = |x_k - y_k| * scale_k: "sqeuclidean" is the sum s of t^2 over
inputs, "gaussian" exp(-s), "exponential" exp(-sqrt(s)), "matern_3_2" (1 + r) exp(-r)
with r = sqrt(3 s), "matern_5_2" (1 + r + r^2 / 3) exp(-r) with r = sqrt(5 s),
"rational" 1 / (1 + s), "rational_power" (1 + s / parameter)^-parameter; "cityblock" is
the sum of t, "laplacian" exp of minus it, "cauchy" the product of 1 / (1 + t^2). An
exponential below 2^-1021 may be 0.

Data and result are all float32 or all float64; float32 data are worked on in float64
where float32 would be wrong by 1e-6, or with ``single`` by 2e-5. Distances are exactly
0 and kernels 1 for equal rows, and the matrix of rows with themselves is symmetric, bit
for bit. ``centre`` (d) only serves accuracy: let it lie among the rows. ``scale`` (d)
is positive. False, with ``out`` undefined, if squared distances overflow.)");
    m.def("kernel_product", &multiply_kernel, "kernel"_a, "X"_a, "Y"_a.none(), "centre"_a,
          "scale"_a, "parameter"_a, "w"_a, "out"_a, "v"_a.none(), "out_of_y"_a.none(),
          "n_threads"_a, "single"_a = false,
          R"(out (n, k) += K w for the kernel K of the rows of X (n, d) and Y (m, d), which is not
held; with ``v`` (n, k) also out_of_y (m, k) += K' v. Y may be None for X itself: then
every pair is made once, and there is no ``v``.

Weights are all float64, or of the type of the data; in float32 short sums are. The rest
as for ``kernel_block``. Results depend on the number of threads to rounding, and on
nothing else.)");
    m.def(
        "held_product", &multiply_held, "M"_a, "transposed"_a, "weights"_a, "out"_a, "n_threads"_a,
        R"(out (n, k) += M weights' for M (n, p) and weights (k, p), or, if ``transposed``, out (k,
p) += weights' M for weights (n, k), in float64. For weights in float64 numbers are
widened before they are multiplied; otherwise, which is for rows alone, sums of a
thousand terms are float32. The number of threads changes no bit.)");
    m.def("fixed_kernel_size", &size_of_fixed, "n"_a,
          "How many fixed the kernel matrix of n rows takes, about n^2 / 2.");
    m.def("fixed_kernel", &fill_fixed, "kernel"_a, "X"_a, "centre"_a, "scale"_a, "parameter"_a,
          "fixed"_a, "n_threads"_a,
          R"(Write the kernel matrix of the rows of X (n, d) with themselves into ``fixed``
(fixed_kernel_size(n)), half of it alone, in an order of the core's own: in 16 bits an
entry (uint16) for float32 rows, in 31 bits (uint32) for float64 rows.

The rest as for ``kernel_block`` with ``single``; values lie in [0, 1], so that
"sqeuclidean" and "cityblock" are refused; rounding changes them by 2^-17, or 2^-32, at
most.)");
    m.def("fixed_product", &multiply_fixed, "fixed"_a, "w"_a, "out"_a, "n_threads"_a,
          R"(out (n, k) += K w for the matrix of ``fixed_kernel`` and weights (n, k), float32 for
numbers of 16 bits and float64 for those of 31.

Sums of a few hundred terms have the type of the weights. Results depend on the number of
threads to rounding, and on nothing else.)");
    m.def("held_blocks", &multiply_blocks, "M"_a, "weights"_a, "out"_a, "n_threads"_a,
          R"(out (q, p, k) += M weights' for each of q matrices M (q, p, p), with weights (q, k, p)
of its own, in float64. The number of threads changes no bit.)");
    m.def("distance_sums", &add_distances, "weights"_a, "columns"_a, "out"_a, "n_threads"_a,
          R"(out (d) += sum over i and j of weights[i, j] |x[i] - x[j]| for each of the ``columns``
x (d, n), for symmetric weights (n, n) of the same type, whose lower triangle is not
read. Sums of a row have that type. The number of threads changes no bit.)");
    m.def("gram", &add_gram, "Z"_a, "transposed"_a, "weights"_a.none(), "out"_a, "n_threads"_a,
          R"(out (D, D) += Z' diag(weights) Z for Z (n, D), which comes as Z' if ``transposed``;
``out`` has to be symmetric. At most 1024 rows are summed up in the type of Z. The
number of threads changes no bit.)");
}
