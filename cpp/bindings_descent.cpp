// Functions of the Python module for coordinate descent, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "descent_async.hpp"

#include <nanobind/nanobind.h>

using namespace nb::literals;
using namespace mercer;

namespace {

// The variables and the slopes that all forms of descent work on.
struct NetArguments {
    NetArguments(Arrays& arrays, nb::handle l1, nb::handle l2, nb::handle curvature, nb::handle w_,
                 nb::handle slope_, nb::handle row_curvature_, std::size_t p)
        : slopes(arrays.write(slope_, "slope", {Type::f64}, 1)), n(slopes.extent(0)),
          slope(slopes.data<double>()),
          row_curvature(arrays.optional<double>(row_curvature_, "row_curvature", Type::f64, n)) {
        const Buffer& w = arrays.write(w_, "w", {Type::f64}, 1);
        w.expect_shape({p});
        net = {of_variables(arrays, l1, "l1", p), of_variables(arrays, l2, "l2", p),
               of_variables(arrays, curvature, "curvature", p), w.data<double>()};
    }
    const Buffer& slopes;
    std::size_t n;
    double* slope;
    const double* row_curvature;
    Net net;

  private:
    static const double* of_variables(Arrays& arrays, nb::handle object, const char* name,
                                      std::size_t p) {
        const Buffer& buffer = arrays.read(object, name, {Type::f64}, 1);
        buffer.expect_shape({p});
        return buffer.data<const double>();
    }
};

nb::tuple swept_tuple(Swept swept) {
    return nb::make_tuple(swept.count, swept.largest);
}

// Sparse columns as three arrays: starts, rows, values or None.
struct ColumnArguments {
    ColumnArguments(Arrays& arrays, nb::handle starts_, nb::handle rows_, nb::handle values)
        : starts(arrays.read(starts_, "starts", {Type::i64}, 1)),
          rows(arrays.read(rows_, "rows", {Type::u32}, 1)),
          numbers(arrays.optional<double>(values, "values", Type::f64, rows.extent(0))) {
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

nb::tuple columns(nb::handle starts, nb::handle rows, nb::handle values, double scale,
                  nb::handle groups_, nb::handle order_, nb::handle l1, nb::handle l2,
                  nb::handle curvature, nb::handle w, nb::handle slope, nb::handle row_curvature,
                  std::size_t n_sweeps, double tol, Threads n_threads) {
    Arrays arrays;
    const ColumnArguments given(arrays, starts, rows, values);
    const NetArguments arguments(arrays, l1, l2, curvature, w, slope, row_curvature, given.p());
    const SparseColumns<double> Z = given.columns(scale, arguments.n);
    const std::int64_t* places = nullptr;
    std::size_t n_positions = Z.p;
    if (!order_.is_none()) {
        const Buffer& order = arrays.read(order_, "order", {Type::i64}, 1);
        expect_below<std::int64_t>(order, Z.p, "the number of columns");
        n_positions = order.extent(0);
        places = order.data<const std::int64_t>();
    }
    const Buffer& bounds = arrays.read(groups_, "groups", {Type::i64}, 1);
    end_of<std::int64_t>(bounds, n_positions, "columns");
    const Groups groups{bounds.data<const std::int64_t>(), bounds.extent(0) - 1, places};
    Swept swept{0, 0.0};
    {
        const Released released(arrays);
        swept = uncrowded({n_sweeps, tol}, n_threads, [&](Sweeps sweeps, int threads) {
            return descend_columns(Z, groups, arguments.net, arguments.row_curvature,
                                   arguments.slope, sweeps, threads);
        });
    }
    return swept_tuple(swept);
}

void async(nb::handle starts, nb::handle rows, nb::handle values, double scale, nb::handle l1,
           nb::handle l2, nb::handle curvature, nb::handle w, nb::handle slope,
           nb::handle row_curvature, std::size_t n_sweeps, Threads n_threads) {
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

nb::tuple grids(nb::handle codes_, nb::handle offsets, double scale, nb::handle l1, nb::handle l2,
                nb::handle curvature, nb::handle w, nb::handle slope, nb::handle row_curvature,
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
    return swept_tuple(swept);
}

nb::tuple gram(nb::handle hessian_, nb::handle l1_, nb::handle l2_, nb::handle w_,
               nb::handle gradient_, std::size_t n_sweeps, double tol) {
    Arrays arrays;
    const Buffer& hessian = arrays.read(hessian_, "hessian", {Type::f64}, 2);
    const Buffer& l1 = arrays.read(l1_, "l1", {Type::f64}, 1);
    const Buffer& l2 = arrays.read(l2_, "l2", {Type::f64}, 1);
    const Buffer& w = arrays.write(w_, "w", {Type::f64}, 1);
    const Buffer& gradient = arrays.write(gradient_, "gradient", {Type::f64}, 1);
    const std::size_t p = w.extent(0);
    hessian.expect_shape({p, p});
    for (const Buffer* buffer : {&l1, &l2, &gradient}) buffer->expect_shape({p});
    Swept swept{0, 0.0};
    {
        const Released released(arrays);
        while (swept.count < n_sweeps) {
            swept.largest = descent_loops().sweep_gram(
                hessian.data<const double>(), p, l1.data<const double>(), l2.data<const double>(),
                w.data<double>(), gradient.data<double>());
            ++swept.count;
            if (swept.largest <= tol) break;
        }
    }
    return swept_tuple(swept);
}

}  // namespace

void add_descent(nb::module_& m) {
    m.def("descend_columns", &columns, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a,
          "groups"_a, "order"_a.none(), "l1"_a, "l2"_a, "curvature"_a, "w"_a, "slope"_a,
          "row_curvature"_a.none(), "n_sweeps"_a, "tol"_a, "n_threads"_a);
    m.def("descend_async", &async, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a, "l1"_a,
          "l2"_a, "curvature"_a, "w"_a, "slope"_a, "row_curvature"_a.none(), "n_sweeps"_a,
          "n_threads"_a);
    m.def("descend_grids", &grids, "codes"_a, "offsets"_a, "scale"_a, "l1"_a, "l2"_a, "curvature"_a,
          "w"_a, "slope"_a, "row_curvature"_a.none(), "n_sweeps"_a, "tol"_a, "n_threads"_a);
    m.def("descend_gram", &gram, "hessian"_a, "l1"_a, "l2"_a, "w"_a, "gradient"_a, "n_sweeps"_a,
          "tol"_a);
}
