// Kernel matrices for the Python module, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "gram.hpp"
#include "held_product.hpp"
#include "kernel_product.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <string_view>

using namespace nb::literals;
using namespace mercer;

KernelKind kernel_named(const std::string& name);  // also for bindings_dual.cpp

namespace {

constexpr std::string_view kKernelNames[] = {
    "sqeuclidean", "gaussian",       "exponential", "matern_3_2", "matern_5_2",
    "rational",    "rational_power", "cityblock",   "laplacian",  "cauchy"};

bool fill(const std::string& name, nb::handle X, nb::handle Y, nb::handle centre_,
          nb::handle scale_, double parameter, nb::handle out_, int n_threads, bool single) {
    const KernelKind kind = kernel_named(name);
    const Buffer x(X.ptr(), "X", {Type::f32, Type::f64}, 2);
    const Buffer y(Y.ptr(), "Y", {x.type()}, 2);
    const Buffer centre(centre_.ptr(), "centre", {Type::f64}, 1);
    const Buffer scale(scale_.ptr(), "scale", {Type::f64}, 1);
    const Buffer out(out_.ptr(), "out", {x.type()}, 2, true);
    const std::size_t n = x.extent(0), d = x.extent(1), m = y.extent(0);
    y.expect_shape({m, d});
    centre.expect_shape({d});
    scale.expect_shape({d});
    out.expect_shape({n, m});
    return with_float(x.type(), [&](auto zero) {
        using T = decltype(zero);
        const KernelWork<T> work{kind,
                                 x.data<const T>(),
                                 y.data<const T>(),
                                 n,
                                 m,
                                 d,
                                 centre.data<const double>(),
                                 scale.data<const double>(),
                                 parameter,
                                 out.data<T>()};
        nb::gil_scoped_release released;
        return kernel_block(work, single ? Accuracy::single : Accuracy::full, n_threads);
    });
}

bool multiply_kernel(const std::string& name, nb::handle X, nb::handle Y, nb::handle centre_,
                     nb::handle scale_, double parameter, nb::handle w, nb::handle out,
                     nb::handle v, nb::handle out_of_y, int n_threads, bool single) {
    const KernelKind kind = kernel_named(name);
    const Buffer x(X.ptr(), "X", {Type::f32, Type::f64}, 2);
    const Buffer y(Y.is_none() ? X.ptr() : Y.ptr(), "Y", {x.type()}, 2);
    const Buffer centre(centre_.ptr(), "centre", {Type::f64}, 1);
    const Buffer scale(scale_.ptr(), "scale", {Type::f64}, 1);
    const std::size_t n = x.extent(0), d = x.extent(1), m = y.extent(0);
    y.expect_shape({m, d});
    centre.expect_shape({d});
    scale.expect_shape({d});
    const Buffer weights = x.type() == Type::f64 ? Buffer(w.ptr(), "w", {Type::f64}, 2)
                                                 : Buffer(w.ptr(), "w", {Type::f32, Type::f64}, 2);
    const Buffer sums(out.ptr(), "out", {Type::f64}, 2, true);
    const std::size_t k = weights.extent(1);
    weights.expect_shape({m, k});
    sums.expect_shape({n, k});
    std::optional<Buffer> point_weights, landmark_sums;
    if (!v.is_none()) {
        point_weights.emplace(v.ptr(), "v", std::initializer_list{weights.type()}, 2);
        point_weights->expect_shape({n, k});
        landmark_sums.emplace(out_of_y.ptr(), "out_of_y", std::initializer_list{Type::f64}, 2,
                              true);
        landmark_sums->expect_shape({m, k});
    }
    return with_float(x.type(), [&](auto zero) {
        return with_float(weights.type(), [&](auto weight) {
            using In = decltype(zero);
            using S = decltype(weight);
            if constexpr (sizeof(S) < sizeof(In)) {
                return false;  // refused above
            } else {
                const ProductWork<In, S> work{
                    {kind, x.data<const In>(), y.data<const In>(), n, m, d,
                     centre.data<const double>(), scale.data<const double>(), parameter, nullptr},
                    k,
                    weights.data<const S>(),
                    sums.data<double>(),
                    point_weights ? point_weights->data<const S>() : nullptr,
                    landmark_sums ? landmark_sums->data<double>() : nullptr,
                    Y.is_none()};
                nb::gil_scoped_release released;
                return kernel_product(work, single ? Accuracy::single : Accuracy::full, n_threads);
            }
        });
    });
}

void add_gram(nb::handle Z, bool transposed, nb::handle weights_, nb::handle out_, int n_threads) {
    const Buffer matrix(Z.ptr(), "Z", {Type::f32, Type::f64}, 2);
    const std::size_t n = matrix.extent(transposed), d = matrix.extent(!transposed);
    const Buffer out(out_.ptr(), "out", {Type::f64}, 2, true);
    out.expect_shape({d, d});
    std::optional<Buffer> weights;
    if (!weights_.is_none()) {
        weights.emplace(weights_.ptr(), "weights", std::initializer_list{Type::f64}, 1);
        weights->expect_shape({n});
    }
    with_float(matrix.type(), [&](auto zero) {
        using T = decltype(zero);
        const GramWork<T> work{matrix.data<const T>(),
                               n,
                               d,
                               transposed,
                               weights ? weights->data<const double>() : nullptr,
                               out.data<double>()};
        nb::gil_scoped_release released;
        gram(work, n_threads);
    });
}

void multiply_held(nb::handle M, bool transposed, nb::handle weights_, nb::handle out_,
                   int n_threads) {
    const Buffer matrix(M.ptr(), "M", {Type::f32}, 2);
    const Buffer weights = transposed
                               ? Buffer(weights_.ptr(), "weights", {Type::f64}, 2)
                               : Buffer(weights_.ptr(), "weights", {Type::f32, Type::f64}, 2);
    const Buffer out(out_.ptr(), "out", {Type::f64}, 2, true);
    const std::size_t n = matrix.extent(0), p = matrix.extent(1);
    const std::size_t k = weights.extent(transposed);
    transposed ? weights.expect_shape({n, k}) : weights.expect_shape({k, p});
    transposed ? out.expect_shape({k, p}) : out.expect_shape({n, k});
    with_float(weights.type(), [&](auto zero) {
        using T = decltype(zero);
        const HeldWork<T> work{
            matrix.data<const float>(), n, p, k, transposed, weights.data<const T>(),
            out.data<double>()};
        nb::gil_scoped_release released;
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
