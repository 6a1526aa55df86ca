// Many small kernel machines for the Python module, as bindings.cpp does it for the rest.
#include "leaves.hpp"
#include "arguments.hpp"
#include "leaf_newton.hpp"
#include "leaf_products.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <string>

using namespace nb::literals;
using namespace mercer;

KernelKind kernel_named(const std::string& name);  // in bindings_kernels.cpp

namespace {

// Which rows, below `n`, are in which leaf.
struct LeafArguments {
    LeafArguments(Arrays& arrays, Integers order_, Integers starts_, std::size_t n,
                  const char* bound)
        : order(arrays.read(order_, "order", 1)), starts(arrays.read(starts_, "starts", 1)),
          entries(order.extent(0)) {
        expect_below<std::int64_t>(order, n, bound);
        const std::size_t end = end_of<std::int64_t>(
            starts, std::numeric_limits<std::size_t>::max(), "entries of order");
        if (end != entries)
            starts.fail("must end with the number of entries of order", std::to_string(end));
        rows = {order.data<const std::int64_t>(), starts.data<const std::int64_t>(),
                starts.extent(0) - 1};
    }
    const Buffer &order, &starts;
    std::size_t entries;
    LeafRows rows;
};

const double* positive(Arrays& arrays, Doubles numbers, const char* name, std::size_t length) {
    const Buffer& buffer = arrays.read(numbers, name, 1);
    buffer.expect_shape({length});
    const auto* first = buffer.data<const double>();
    const auto* last = first + length;
    const auto* bad = std::find_if(first, last, [](double x) {
        return !(x > 0.0 && x <= std::numeric_limits<double>::max());
    });
    if (bad != last) buffer.fail("must be positive and finite", std::to_string(*bad));
    return first;
}

// The arguments that machines of any loss have.
LeafWork read_work(Arrays& arrays, Array<Type::f32> X_, Integers order, Integers starts,
                   const std::string& name, double parameter, Doubles scale, Doubles targets_,
                   Doubles weights_, Doubles ridges_, bool fit_intercept, double tol, Doubles coef_,
                   Doubles intercept_, Doubles residual_) {
    const Buffer& X = arrays.read(X_, "X", 2);
    const std::size_t n = X.extent(0), d = X.extent(1);
    const LeafArguments leaves(arrays, order, starts, n, "the number of rows of X");
    const LeafKernel kernel{kernel_named(name), d, arrays.numbers(scale, "scale", d), parameter};
    const Buffer& targets = arrays.read(targets_, "targets", 2);
    const std::size_t k = targets.extent(1);
    targets.expect_shape({n, k});
    const std::size_t q = arrays.read(ridges_, "ridges", 1).extent(0);
    const double* const ridges = positive(arrays, ridges_, "ridges", q);
    const double* const weights =
        weights_.is_none() ? nullptr : positive(arrays, weights_, "weights", n);
    const Buffer& coef = arrays.write(coef_, "coef", 3);
    const Buffer& intercept = arrays.write(intercept_, "intercept", 3);
    const Buffer& residual = arrays.write(residual_, "residual", 2);
    coef.expect_shape({q, leaves.entries, k});
    intercept.expect_shape({q, leaves.rows.count, k});
    residual.expect_shape({q, leaves.rows.count});
    return {X.data<const float>(),
            kernel,
            leaves.rows,
            targets.data<const double>(),
            k,
            weights,
            ridges,
            q,
            fit_intercept,
            tol,
            coef.data<double>(),
            intercept.data<double>(),
            residual.data<double>()};
}

void solve(Array<Type::f32> X, Integers order, Integers starts, const std::string& kernel,
           double parameter, Doubles scale, Doubles targets, Doubles weights, Doubles ridges,
           bool fit_intercept, double tol, Doubles coef, Doubles intercept, Doubles residual,
           Threads n_threads) {
    Arrays arrays;
    const LeafWork work = read_work(arrays, X, order, starts, kernel, parameter, scale, targets,
                                    weights, ridges, fit_intercept, tol, coef, intercept, residual);
    const Released released(arrays);
    solve_leaves(work, n_threads);
}

LeafLoss loss_named(const std::string& name) {
    for (std::size_t i = 0; i < leaf_loss_names.size(); ++i)
        if (leaf_loss_names[i] == name) return static_cast<LeafLoss>(i);
    throw nb::value_error(("loss is unknown; got '" + name + "'.").c_str());
}

void minimise(Array<Type::f32> X, Integers order, Integers starts, const std::string& kernel,
              double parameter, Doubles scale, Doubles targets, Doubles weights, Doubles ridges,
              bool fit_intercept, const std::string& loss, double loss_parameter, double tol,
              std::size_t max_iter, Doubles coef, Doubles intercept, Doubles residual,
              Integers steps_, Threads n_threads) {
    Arrays arrays;
    const LeafWork work = read_work(arrays, X, order, starts, kernel, parameter, scale, targets,
                                    weights, ridges, fit_intercept, tol, coef, intercept, residual);
    const Buffer& steps = arrays.write(steps_, "steps", 2);
    steps.expect_shape({work.n_ridges, work.leaves.count});
    const NewtonWork newton{work, loss_named(loss), loss_parameter, max_iter,
                            steps.data<std::int64_t>()};
    const Released released(arrays);
    minimise_leaves(newton, n_threads);
}

bool predict(Floats X, Integers rows_, Integers leaves_, Doubles shares, Floats landmarks_,
             Integers order, Integers starts, const std::string& kernel, double parameter,
             Doubles scale, Doubles coef_, Doubles intercept_, Doubles out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& x = arrays.read(X, "X", 2);
    const std::size_t n = x.extent(0), d = x.extent(1);
    const Buffer& rows = arrays.read(rows_, "rows", 1);
    const Buffer& of = arrays.read(leaves_, "leaves", 1);
    const std::size_t pairs = rows.extent(0);
    of.expect_shape({pairs});
    const double* const of_pairs = arrays.numbers(shares, "shares", pairs);
    const Buffer& landmarks = arrays.read(landmarks_, "landmarks", {x.type()}, 2);
    landmarks.expect_shape({landmarks.extent(0), d});
    const LeafArguments leaves(arrays, order, starts, landmarks.extent(0),
                               "the number of rows of landmarks");
    expect_below<std::int64_t>(rows, n, "the number of rows of X");
    expect_below<std::int64_t>(of, leaves.rows.count, "the number of leaves");
    const auto* leaf = of.data<const std::int64_t>();
    if (const auto* falls = std::is_sorted_until(leaf, leaf + pairs); falls != leaf + pairs)
        of.fail("must never fall", std::to_string(*falls) + " after " + std::to_string(falls[-1]));
    const LeafKernel of_leaves{kernel_named(kernel), d, arrays.numbers(scale, "scale", d),
                               parameter};
    const Buffer& coef = arrays.read(coef_, "coef", 2);
    const std::size_t k = coef.extent(1);
    coef.expect_shape({leaves.entries, k});
    const Buffer& intercept = arrays.read(intercept_, "intercept", 2);
    intercept.expect_shape({leaves.rows.count, k});
    const Buffer& out = arrays.write(out_, "out", 2);
    out.expect_shape({n, k});
    bool small = false;
    with_float(x.type(), [&](auto zero) {
        using T = decltype(zero);
        const LeafProducts<T> work{x.data<const T>(),
                                   rows.data<const std::int64_t>(),
                                   leaf,
                                   of_pairs,
                                   pairs,
                                   landmarks.data<const T>(),
                                   leaves.rows,
                                   of_leaves,
                                   k,
                                   coef.data<const double>(),
                                   intercept.data<const double>(),
                                   out.data<double>()};
        const Released released(arrays);
        small = add_leaf_products(work, n_threads);
    });
    return small;
}

}  // namespace

void add_leaves(nb::module_& m) {
    m.def("solve_leaves", &solve, "X"_a, "order"_a, "starts"_a, "kernel"_a, "parameter"_a,
          "scale"_a, "targets"_a, "weights"_a.none(), "ridges"_a, "fit_intercept"_a, "tol"_a,
          "coef"_a, "intercept"_a, "residual"_a, "n_threads"_a,
          R"(Solve an exact kernel machine for every leaf and every one of q ridges.

Leaf l has the rows order[starts[l]:starts[l + 1]] of X (n, d); a row may be in several
leaves. With their kernel matrix K, as ``kernel_block`` makes it in float32 with
``single``, and targets y (n, k) it is (K + ridge diag(1 / weights)) a + b = y with the
sum of a being 0; without ``fit_intercept`` b is 0 and the sum is free. The rows of a
stand in coef[r] (q, len(order), k) in the order of ``order``, b in intercept (q,
leaves, k).

The factor is float32, and refined until residual (q, leaves) is at most ``tol`` or falls
no more: the largest norm, over outputs, of what is left of y relative to that of y without
its mean (without ``fit_intercept``, of y). It is infinite, with coefficients of 0, where
there is no factor in float32 or squared distances overflow. With a ``tol`` of 1e-4 or
more, few outputs and no intercept, the factor of a large leaf also serves, in iterations,
for the next ridges that are near. The number of threads changes no bit; each has memory for
about n^2 float32 numbers of the largest leaf.)");
    m.def("minimise_leaves", &minimise, "X"_a, "order"_a, "starts"_a, "kernel"_a, "parameter"_a,
          "scale"_a, "targets"_a, "weights"_a.none(), "ridges"_a, "fit_intercept"_a, "loss"_a,
          "loss_parameter"_a, "tol"_a, "max_iter"_a, "coef"_a, "intercept"_a, "residual"_a,
          "steps"_a, "n_threads"_a,
          R"(Minimise a loss in every leaf for every one of q ridges, by Newton's method.

Leaves, arrays and float32 kernels K are as in ``solve_leaves``. The least of the sum of
weights * loss(y, K a + b) + ridge / 2 a' K a is found, ``loss`` being "logistic",
"squared_hinge", "smooth_hinge", "huber", of delta ``loss_parameter``, or "multinomial",
which takes the outputs of a row together. On entry intercept[0] has the constants of the
models to begin with; each ridge begins where the one before ended, so that large ones come
first best.

residual (q, leaves) is the largest norm, over outputs, of slopes + ridge a relative to
that of the constant model. It is above ``tol`` after ``max_iter`` steps, of which
``steps`` (q, leaves) has the number, and where float32 does not lead further; infinite
where float32 is too short for the responses. The number of threads changes no
bit.)");
    m.def("predict_leaves", &predict, "X"_a, "rows"_a, "leaves"_a, "shares"_a, "landmarks"_a,
          "order"_a, "starts"_a, "kernel"_a, "parameter"_a, "scale"_a, "coef"_a, "intercept"_a,
          "out"_a, "n_threads"_a,
          R"(out[rows[i]] += shares[i] * (kernels of X[rows[i]] and the rows of leaf leaves[i] times
their part of coef + intercept[leaves[i]]) for every i.

Leaves are as in ``solve_leaves``, of the rows of ``landmarks``; coef (len(order), k),
intercept (leaves, k) and out (n, k) belong to one ridge. ``leaves`` must never fall; a
row may come several times. Kernels are those of ``kernel_block`` in the dtype of the rows
and landmarks, float32 with ``single``, and are multiplied in float64, none is held.
False, with ``out`` undefined, if squared distances overflow. The number of threads
changes no bit.)");
}
