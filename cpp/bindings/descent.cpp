// Functions of the Python module for coordinate descent, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "descent_async.hpp"
#include "face.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include <utility>

using namespace nb::literals;
using namespace mercer;

namespace {

// The variables and the slopes that all forms of descent work on.
struct NetArguments {
    NetArguments(Arrays& arrays, Doubles l1, Doubles l2, Doubles curvature, Doubles w_,
                 Doubles slope_, Doubles row_curvature_, std::size_t p)
        : slopes(arrays.write(slope_, "slope", 1)), n(slopes.extent(0)),
          slope(slopes.data<double>()),
          row_curvature(arrays.optional(row_curvature_, "row_curvature", n)) {
        const Buffer& w = arrays.write(w_, "w", 1);
        w.expect_shape({p});
        net = {arrays.numbers(l1, "l1", p), arrays.numbers(l2, "l2", p),
               arrays.numbers(curvature, "curvature", p), w.data<double>()};
    }
    const Buffer& slopes;
    std::size_t n;
    double* slope;
    const double* row_curvature;
    Net net;
};

// The number of sweeps, and the largest change of the last one times its curvature.
using Result = std::pair<std::size_t, double>;

// Sparse columns as three arrays: starts, rows, values or None.
struct ColumnArguments {
    ColumnArguments(Arrays& arrays, Integers starts_, Array<Type::u32> rows_, Doubles values)
        : starts(arrays.read(starts_, "starts", 1)), rows(arrays.read(rows_, "rows", 1)),
          numbers(arrays.optional(values, "values", rows.extent(0))) {
        if (starts.extent(0) == 0) starts.fail("must have at least one entry", "none");
    }
    std::size_t p() const { return starts.extent(0) - 1; }
    SparseColumns<double> columns(double scale, std::size_t n) const {
        expect_lists<std::uint32_t>(starts, rows, n, "column, below the number of rows");
        return {starts.data<const std::int64_t>(),
                rows.data<const std::uint32_t>(),
                numbers,
                scale,
                n,
                p()};
    }

  private:
    const Buffer &starts, &rows;
    const double* numbers;
};

// Positions of columns: all of them in turn, or those that `order` names.
struct PlaceArguments {
    PlaceArguments(Arrays& arrays, Integers order_, std::size_t p) : count(p) {
        if (order_.is_none()) return;
        const Buffer& order = arrays.read(order_, "order", 1);
        expect_below<std::int64_t>(order, p, "the number of columns");
        count = order.extent(0);
        places = order.data<const std::int64_t>();
    }
    std::size_t operator[](std::size_t k) const {
        return places ? static_cast<std::size_t>(places[k]) : k;
    }
    const std::int64_t* places = nullptr;
    std::size_t count;
};

Result columns(Integers starts, Array<Type::u32> rows, Doubles values, double scale,
               Integers groups_, Integers order_, Doubles l1, Doubles l2, Doubles curvature,
               Doubles w, Doubles slope, Doubles row_curvature, std::size_t n_sweeps, double tol,
               Threads n_threads) {
    Arrays arrays;
    const ColumnArguments given(arrays, starts, rows, values);
    const NetArguments arguments(arrays, l1, l2, curvature, w, slope, row_curvature, given.p());
    const SparseColumns<double> Z = given.columns(scale, arguments.n);
    const PlaceArguments order(arrays, order_, Z.p);
    const Buffer& bounds = arrays.read(groups_, "groups", 1);
    end_of<std::int64_t>(bounds, order.count, "columns");
    const Groups groups{bounds.data<const std::int64_t>(), bounds.extent(0) - 1, order.places};
    const Released released(arrays);
    const Swept swept = uncrowded({n_sweeps, tol}, n_threads, [&](Sweeps sweeps, int threads) {
        return descend_columns(Z, groups, arguments.net, arguments.row_curvature, arguments.slope,
                               sweeps, threads);
    });
    return {swept.count, swept.largest};
}

void product(Integers starts, Array<Type::u32> rows, Doubles values, double scale, Integers order,
             Doubles w_, Doubles out_) {
    Arrays arrays;
    const ColumnArguments given(arrays, starts, rows, values);
    const PlaceArguments places(arrays, order, given.p());
    const double* w = arrays.numbers(w_, "w", places.count);
    const Buffer& out = arrays.write(out_, "out", 1);
    const SparseColumns<double> Z = given.columns(scale, out.extent(0));
    const Released released(arrays);
    for (std::size_t k = 0; k < places.count; ++k)
        add_column(Z, places[k], w[k], out.data<double>());
}

void sums(Integers starts, Array<Type::u32> rows, Doubles values, double scale, Integers order,
          Doubles v_, Doubles out_) {
    Arrays arrays;
    const ColumnArguments given(arrays, starts, rows, values);
    const PlaceArguments places(arrays, order, given.p());
    const Buffer& v = arrays.read(v_, "v", 1);
    const Buffer& out = arrays.write(out_, "out", 1);
    out.expect_shape({places.count});
    const SparseColumns<double> Z = given.columns(scale, v.extent(0));
    const Released released(arrays);
    for (std::size_t k = 0; k < places.count; ++k)
        out.data<double>()[k] = column_sum(Z, places[k], v.data<const double>());
}

std::size_t face(Integers starts, Array<Type::u32> rows, Doubles values, double scale,
                 Integers order_, double l2, bool centred, Doubles diagonal, Doubles slope,
                 Doubles row_curvature, std::size_t n_turns, double fall, Doubles step_,
                 Doubles moves_) {
    Arrays arrays;
    const ColumnArguments given(arrays, starts, rows, values);
    const Buffer& moves = arrays.write(moves_, "moves", 1);
    const SparseColumns<double> Z = given.columns(scale, moves.extent(0));
    const PlaceArguments order(arrays, order_, given.p());
    const Face at{order.places,
                  order.count,
                  arrays.numbers(diagonal, "diagonal", order.count),
                  arrays.optional(row_curvature, "row_curvature", Z.n),
                  l2,
                  centred};
    const double* slopes = arrays.numbers(slope, "slope", order.count);
    const Buffer& step = arrays.write(step_, "step", 1);
    step.expect_shape({order.count});
    const Released released(arrays);
    return face_step(Z, at, slopes, n_turns, fall, step.data<double>(), moves.data<double>());
}

void async(Integers starts, Array<Type::u32> rows, Doubles values, double scale, Doubles l1,
           Doubles l2, Doubles curvature, Doubles w, Doubles slope, Doubles row_curvature,
           std::size_t n_sweeps, Threads n_threads) {
    Arrays arrays;
    const ColumnArguments given(arrays, starts, rows, values);
    const NetArguments arguments(arrays, l1, l2, curvature, w, slope, row_curvature, given.p());
    const SparseColumns<double> Z = given.columns(scale, arguments.n);
    const Released released(arrays);
    descend_async(Z, arguments.net, arguments.row_curvature, arguments.slope, n_sweeps, n_threads);
}

Result gram(Doubles hessian_, Doubles l1_, Doubles l2_, Doubles w_, Doubles gradient_,
            std::size_t n_sweeps, double tol) {
    Arrays arrays;
    const Buffer& hessian = arrays.read(hessian_, "hessian", 2);
    const Buffer& w = arrays.write(w_, "w", 1);
    const std::size_t p = w.extent(0);
    const double* l1 = arrays.numbers(l1_, "l1", p);
    const double* l2 = arrays.numbers(l2_, "l2", p);
    const Buffer& gradient = arrays.write(gradient_, "gradient", 1);
    hessian.expect_shape({p, p});
    gradient.expect_shape({p});
    Result swept{0, 0.0};
    const Released released(arrays);
    while (swept.first < n_sweeps) {
        swept.second = descent_loops().sweep_gram(hessian.data<const double>(), p, l1, l2,
                                                  w.data<double>(), gradient.data<double>());
        ++swept.first;
        if (swept.second <= tol) break;
    }
    return swept;
}

}  // namespace

void add_descent(nb::module_& m) {
    m.def("descend_gram", &gram, "hessian"_a, "l1"_a, "l2"_a, "w"_a, "gradient"_a, "n_sweeps"_a,
          "tol"_a,
          R"(Sweeps over p variables of w'Hw / 2, whose gradient is kept, with the elastic net and
the result of ``descend_columns``.)");
    m.def("descend_columns", &columns, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a,
          "groups"_a, "order"_a.none(), "l1"_a, "l2"_a, "curvature"_a, "w"_a, "slope"_a,
          "row_curvature"_a.none(), "n_sweeps"_a, "tol"_a, "n_threads"_a,
          R"(Sweeps over sparse columns, a group of ``order`` at a time: its columns move at once.
Rows ascend within a column.

Minimises (1/n) sum_i (g_i e_i + h_i e_i^2 / 2) + sum_j (l1_j |w_j| + l2_j w_j^2 / 2)
with e = Z (w - w_before), in place: ``slope`` (n) holds g + h e, ``curvature`` (p) is
(1/n) sum h z^2, h is ``row_curvature``, or ones. Returns the number of sweeps and the
largest change of the last one times its curvature.)");
    m.def("list_product", &product, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a,
          "order"_a.none(), "w"_a, "out"_a,
          R"(out (n) += Z w for sparse columns, all of them or those at positions ``order``.)");
    m.def("list_sums", &sums, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a, "order"_a.none(),
          "v"_a, "out"_a,
          R"(out = Z' v for sparse columns, all of them or those at positions ``order``.)");
    m.def(
        "face_step", &face, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a, "order"_a, "l2"_a,
        "centred"_a, "diagonal"_a, "slope"_a, "row_curvature"_a.none(), "n_turns"_a, "fall"_a,
        "step"_a, "moves"_a,
        R"(Conjugate gradients, scaled by ``diagonal``, on the quadratic of ``descend_columns`` for the
columns at positions ``order``, whose gradient is ``slope``: ``step`` is where it vanishes.
``centred``: with an intercept. ``moves`` (n) becomes Z ``step``. Ends after ``n_turns``
products, or when the squared residual has fallen to the share ``fall``; returns the number
of products.)");
    m.def("descend_async", &async, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a, "l1"_a,
          "l2"_a, "curvature"_a, "w"_a, "slope"_a, "row_curvature"_a.none(), "n_sweeps"_a,
          "n_threads"_a,
          R"(Sweeps of threads that do not wait for each other, each over columns of its own, as
``descend_columns``.)");
}
