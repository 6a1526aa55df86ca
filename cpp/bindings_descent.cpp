// Functions of the Python module for coordinate descent, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "descent_async.hpp"

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

Result columns(Integers starts, Array<Type::u32> rows, Doubles values, double scale,
               Integers groups_, Integers order_, Doubles l1, Doubles l2, Doubles curvature,
               Doubles w, Doubles slope, Doubles row_curvature, std::size_t n_sweeps, double tol,
               Threads n_threads) {
    Arrays arrays;
    const ColumnArguments given(arrays, starts, rows, values);
    const NetArguments arguments(arrays, l1, l2, curvature, w, slope, row_curvature, given.p());
    const SparseColumns<double> Z = given.columns(scale, arguments.n);
    const std::int64_t* places = nullptr;
    std::size_t n_positions = Z.p;
    if (!order_.is_none()) {
        const Buffer& order = arrays.read(order_, "order", 1);
        expect_below<std::int64_t>(order, Z.p, "the number of columns");
        n_positions = order.extent(0);
        places = order.data<const std::int64_t>();
    }
    const Buffer& bounds = arrays.read(groups_, "groups", 1);
    end_of<std::int64_t>(bounds, n_positions, "columns");
    const Groups groups{bounds.data<const std::int64_t>(), bounds.extent(0) - 1, places};
    const Released released(arrays);
    const Swept swept = uncrowded({n_sweeps, tol}, n_threads, [&](Sweeps sweeps, int threads) {
        return descend_columns(Z, groups, arguments.net, arguments.row_curvature, arguments.slope,
                               sweeps, threads);
    });
    return {swept.count, swept.largest};
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

// Slopes and steps of a grid have a place for each of its bins and no other. One look beside two
// for every sweep.
template <class Code>
void expect_bins(const BinnedGrids<Code>& Z) {
    for (std::size_t g = 0; g < Z.n_grids; ++g) {
        const Code* codes = Z.codes + g * Z.n;
        const auto n_bins = static_cast<std::uint64_t>(Z.starts[g + 1] - Z.starts[g]);
        Code most = 0;
        for (std::size_t i = 0; i < Z.n; ++i) most = std::max(most, codes[i]);
        if (Z.n && most >= n_bins)
            throw std::invalid_argument(
                "codes must be below the number of columns of their grid, " +
                std::to_string(n_bins) + "; got " + std::to_string(most) + ".");
    }
}

Result grids(Codes codes_, Integers offsets, double scale, Doubles l1, Doubles l2,
             Doubles curvature, Doubles w, Doubles slope, Doubles row_curvature,
             std::size_t n_sweeps, double tol, Threads n_threads) {
    Arrays arrays;
    const BinArguments bins(arrays, codes_, offsets);
    const NetArguments arguments(arrays, l1, l2, curvature, w, slope, row_curvature,
                                 bins.n_columns);
    arguments.slopes.expect_shape({bins.n});
    const Swept swept = with_code(bins.codes.type(), [&](auto code) {
        using Code = decltype(code);
        const BinnedGrids<Code> Z{bins.codes.data<const Code>(), bins.starts, scale, bins.n_grids,
                                  bins.n};
        const Released released(arrays);
        expect_bins(Z);
        return uncrowded({n_sweeps, tol}, n_threads, [&](Sweeps sweeps, int threads) {
            return descend_grids(Z, arguments.net, arguments.row_curvature, arguments.slope, sweeps,
                                 threads);
        });
    });
    return {swept.count, swept.largest};
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
    m.def("descend_grids", &grids, "codes"_a, "offsets"_a, "scale"_a, "l1"_a, "l2"_a, "curvature"_a,
          "w"_a, "slope"_a, "row_curvature"_a.none(), "n_sweeps"_a, "tol"_a, "n_threads"_a,
          R"(Sweeps over all bins, a grid at a time; all codes have to be within their grids. The
rest as for ``descend_columns``.)");
    m.def("descend_columns", &columns, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a,
          "groups"_a, "order"_a.none(), "l1"_a, "l2"_a, "curvature"_a, "w"_a, "slope"_a,
          "row_curvature"_a.none(), "n_sweeps"_a, "tol"_a, "n_threads"_a,
          R"(Sweeps over sparse columns, a group of ``order`` at a time: its columns move at once.
Rows ascend within a column.

Minimises (1/n) sum_i (g_i e_i + h_i e_i^2 / 2) + sum_j (l1_j |w_j| + l2_j w_j^2 / 2)
with e = Z (w - w_before), in place: ``slope`` (n) holds g + h e, ``curvature`` (p) is
(1/n) sum h z^2, h is ``row_curvature``, or ones. Returns the number of sweeps and the
largest change of the last one times its curvature.)");
    m.def("descend_async", &async, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a, "l1"_a,
          "l2"_a, "curvature"_a, "w"_a, "slope"_a, "row_curvature"_a.none(), "n_sweeps"_a,
          "n_threads"_a,
          R"(Sweeps of threads that do not wait for each other, each over columns of its own, as
``descend_columns``.)");
}
