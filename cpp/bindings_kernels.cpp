// Kernel matrices for the Python module, as bindings.cpp does it for the rest.
#include "arguments.hpp"
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

// Two sets of rows and the kernel between them.
struct KernelArguments {
    KernelArguments(Arrays& arrays, const std::string& name, nb::handle X, nb::handle Y,
                    nb::handle centre_, nb::handle scale_, double parameter_)
        : kind(kernel_named(name)), x(arrays.read(X, "X", {Type::f32, Type::f64}, 2)),
          y(Y.is_none() ? x : arrays.read(Y, "Y", {x.type()}, 2)), n(x.extent(0)), m(y.extent(0)),
          d(x.extent(1)), parameter(parameter_) {
        y.expect_shape({m, d});
        const Buffer& centres = arrays.read(centre_, "centre", {Type::f64}, 1);
        const Buffer& scales = arrays.read(scale_, "scale", {Type::f64}, 1);
        centres.expect_shape({d});
        scales.expect_shape({d});
        centre = centres.data<const double>();
        scale = scales.data<const double>();
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

bool fill(const std::string& name, nb::handle X, nb::handle Y, nb::handle centre, nb::handle scale,
          double parameter, nb::handle out_, Threads n_threads, bool single) {
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

bool multiply_kernel(const std::string& name, nb::handle X, nb::handle Y, nb::handle centre,
                     nb::handle scale, double parameter, nb::handle w, nb::handle out_,
                     nb::handle v_, nb::handle out_of_y_, Threads n_threads, bool single) {
    Arrays arrays;
    const KernelArguments kernel(arrays, name, X, Y, centre, scale, parameter);
    const Buffer& weights = kernel.x.type() == Type::f64
                                ? arrays.read(w, "w", {Type::f64}, 2)
                                : arrays.read(w, "w", {Type::f32, Type::f64}, 2);
    const Buffer& out = arrays.write(out_, "out", {Type::f64}, 2);
    const std::size_t n = kernel.n, m = kernel.m, k = weights.extent(1);
    weights.expect_shape({m, k});
    out.expect_shape({n, k});
    const Buffer *v = nullptr, *out_of_y = nullptr;
    if (!v_.is_none()) {
        if (Y.is_none()) throw std::invalid_argument("v must be None where Y is; got an array.");
        v = &arrays.read(v_, "v", {weights.type()}, 2);
        v->expect_shape({n, k});
        out_of_y = &arrays.write(out_of_y_, "out_of_y", {Type::f64}, 2);
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

void add_gram(nb::handle Z, bool transposed, nb::handle weights, nb::handle out_,
              Threads n_threads) {
    Arrays arrays;
    const Buffer& matrix = arrays.read(Z, "Z", {Type::f32, Type::f64}, 2);
    const std::size_t n = matrix.extent(transposed), d = matrix.extent(!transposed);
    const Buffer& out = arrays.write(out_, "out", {Type::f64}, 2);
    out.expect_shape({d, d});
    with_float(matrix.type(), [&](auto zero) {
        using T = decltype(zero);
        const GramWork<T> work{matrix.data<const T>(),
                               n,
                               d,
                               transposed,
                               arrays.optional<double>(weights, "weights", Type::f64, n),
                               out.data<double>()};
        const Released released(arrays);
        gram(work, n_threads);
    });
}

void multiply_held(nb::handle M, bool transposed, nb::handle weights_, nb::handle out_,
                   Threads n_threads) {
    Arrays arrays;
    const Buffer& matrix = arrays.read(M, "M", {Type::f32}, 2);
    const Buffer& weights = transposed
                                ? arrays.read(weights_, "weights", {Type::f64}, 2)
                                : arrays.read(weights_, "weights", {Type::f32, Type::f64}, 2);
    const Buffer& out = arrays.write(out_, "out", {Type::f64}, 2);
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
          "out"_a, "n_threads"_a, "single"_a = false);
    m.def("kernel_product", &multiply_kernel, "kernel"_a, "X"_a, "Y"_a.none(), "centre"_a,
          "scale"_a, "parameter"_a, "w"_a, "out"_a, "v"_a.none(), "out_of_y"_a.none(),
          "n_threads"_a, "single"_a = false);
    m.def("held_product", &multiply_held, "M"_a, "transposed"_a, "weights"_a, "out"_a,
          "n_threads"_a);
    m.def("gram", &add_gram, "Z"_a, "transposed"_a, "weights"_a.none(), "out"_a, "n_threads"_a);
}
