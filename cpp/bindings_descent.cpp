// Functions of the Python module for coordinate descent, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "descent_async.hpp"

#include <nanobind/nanobind.h>

#include <optional>

using namespace nb::literals;
using namespace mercer;

namespace {

// An optional array of one axis: null where None was given.
class Optional {
  public:
    Optional(nb::handle object, const char* name, std::initializer_list<Type> accepted,
             std::size_t length) {
        if (object.is_none()) return;
        buffer_.emplace(object.ptr(), name, accepted, 1);
        buffer_->expect_shape({length});
    }
    template <class T>
    const T* data() const {
        return buffer_ ? buffer_->data<const T>() : nullptr;
    }

  private:
    std::optional<Buffer> buffer_;
};

// The variables and the slopes that all forms of descent work on.
class NetArguments {
  public:
    NetArguments(nb::handle l1, nb::handle l2, nb::handle curvature, nb::handle w, nb::handle slope,
                 nb::handle row_curvature, std::size_t p, std::size_t n)
        : l1_(l1.ptr(), "l1", {Type::f64}, 1), l2_(l2.ptr(), "l2", {Type::f64}, 1),
          curvature_(curvature.ptr(), "curvature", {Type::f64}, 1),
          w_(w.ptr(), "w", {Type::f64}, 1, true),
          slope_(slope.ptr(), "slope", {Type::f64}, 1, true),
          row_curvature_(row_curvature, "row_curvature", {Type::f64}, n) {
        for (const Buffer* buffer : {&l1_, &l2_, &curvature_, &w_}) buffer->expect_shape({p});
        slope_.expect_shape({n});
        net = {l1_.data<const double>(), l2_.data<const double>(), curvature_.data<const double>(),
               w_.data<double>()};
    }
    double* slope() const { return slope_.data<double>(); }
    const double* row_curvature() const { return row_curvature_.data<double>(); }
    Net net;

  private:
    Buffer l1_, l2_, curvature_, w_, slope_;
    Optional row_curvature_;
};

nb::tuple swept_tuple(Swept swept) {
    return nb::make_tuple(swept.count, swept.largest);
}

// Sparse columns as three arrays: starts, rows, values or None.
class ColumnArguments {
  public:
    ColumnArguments(nb::handle starts, nb::handle rows, nb::handle values, double scale,
                    std::size_t n)
        : starts_(starts.ptr(), "starts", {Type::i64}, 1),
          rows_(rows.ptr(), "rows", {Type::u32}, 1),
          values_(values, "values", {Type::f64}, rows_.extent(0)) {
        if (starts_.extent(0) == 0) starts_.fail("must have at least one entry", "none");
        const auto* first = starts_.data<const std::int64_t>();
        const std::size_t p = starts_.extent(0) - 1;
        for (std::size_t k = 0; k < p; ++k)
            if (first[0] != 0 || first[k] > first[k + 1])
                starts_.fail("must rise from 0", "another order");
        if (static_cast<std::size_t>(first[p]) != rows_.extent(0))
            starts_.fail("must end with the number of rows", std::to_string(first[p]));
        const auto* named = rows_.data<const std::uint32_t>();
        for (std::size_t e = 0; e < rows_.extent(0); ++e)
            if (named[e] >= n) rows_.fail("must be rows", std::to_string(named[e]));
        Z = {first, named, values_.data<double>(), scale, n, p};
    }
    SparseColumns<double> Z;

  private:
    Buffer starts_, rows_;
    Optional values_;
};

nb::tuple columns(nb::handle starts, nb::handle rows, nb::handle values, double scale,
                  nb::handle groups_, nb::handle order_, nb::handle l1, nb::handle l2,
                  nb::handle curvature, nb::handle w, nb::handle slope, nb::handle row_curvature,
                  std::size_t n_sweeps, double tol, int n_threads) {
    const Buffer slopes(slope.ptr(), "slope", {Type::f64}, 1),
        bounds(groups_.ptr(), "groups", {Type::i64}, 1);
    const ColumnArguments given(starts, rows, values, scale, slopes.extent(0));
    const NetArguments arguments(l1, l2, curvature, w, slope, row_curvature, given.Z.p, given.Z.n);
    std::optional<Buffer> order;
    std::size_t n_positions = given.Z.p;
    if (!order_.is_none()) {
        order.emplace(order_.ptr(), "order", std::initializer_list{Type::i64}, 1);
        n_positions = order->extent(0);
        for (std::size_t k = 0; k < n_positions; ++k) {
            const std::int64_t column = order->data<const std::int64_t>()[k];
            if (column < 0 || static_cast<std::size_t>(column) >= given.Z.p)
                order->fail("must name columns", std::to_string(column));
        }
    }
    const auto* bound = bounds.data<const std::int64_t>();
    if (bounds.extent(0) == 0) bounds.fail("must have at least one entry", "none");
    for (std::size_t g = 0; g + 1 < bounds.extent(0); ++g)
        if (bound[0] != 0 || bound[g] > bound[g + 1])
            bounds.fail("must rise from 0", "another order");
    if (static_cast<std::size_t>(bound[bounds.extent(0) - 1]) > n_positions)
        bounds.fail("must stay within the columns", std::to_string(bound[bounds.extent(0) - 1]));
    const Groups groups{bound, bounds.extent(0) - 1,
                        order ? order->data<const std::int64_t>() : nullptr};
    nb::gil_scoped_release released;
    const Swept swept = uncrowded({n_sweeps, tol}, n_threads, [&](Sweeps sweeps, int threads) {
        return descend_columns(given.Z, groups, arguments.net, arguments.row_curvature(),
                               arguments.slope(), sweeps, threads);
    });
    nb::gil_scoped_acquire acquired;
    return swept_tuple(swept);
}

void async(nb::handle starts, nb::handle rows, nb::handle values, double scale, nb::handle l1,
           nb::handle l2, nb::handle curvature, nb::handle w, nb::handle slope,
           nb::handle row_curvature, std::size_t n_sweeps, int n_threads) {
    const Buffer slopes(slope.ptr(), "slope", {Type::f64}, 1);
    const ColumnArguments given(starts, rows, values, scale, slopes.extent(0));
    const NetArguments arguments(l1, l2, curvature, w, slope, row_curvature, given.Z.p, given.Z.n);
    nb::gil_scoped_release released;
    descend_async(given.Z, arguments.net, arguments.row_curvature(), arguments.slope(), n_sweeps,
                  n_threads);
}

nb::tuple grids(nb::handle codes_, nb::handle offsets, double scale, nb::handle l1, nb::handle l2,
                nb::handle curvature, nb::handle w, nb::handle slope, nb::handle row_curvature,
                std::size_t n_sweeps, double tol, int n_threads) {
    const BinArguments bins(codes_, offsets);
    const Buffer variables(w.ptr(), "w", {Type::f64}, 1);
    const NetArguments arguments(l1, l2, curvature, w, slope, row_curvature, variables.extent(0),
                                 bins.n);
    const Buffer starts(offsets.ptr(), "offsets", {Type::i64}, 1);
    const Swept swept = with_code(bins.codes.type(), [&](auto code) {
        using Code = decltype(code);
        const BinnedGrids<Code> Z{bins.codes.data<const Code>(), starts.data<const std::int64_t>(),
                                  scale, bins.n_grids, bins.n};
        nb::gil_scoped_release released;
        return uncrowded({n_sweeps, tol}, n_threads, [&](Sweeps sweeps, int threads) {
            return descend_grids(Z, arguments.net, arguments.row_curvature(), arguments.slope(),
                                 sweeps, threads);
        });
    });
    return swept_tuple(swept);
}

nb::tuple gram(nb::handle hessian_, nb::handle l1_, nb::handle l2_, nb::handle w_,
               nb::handle gradient_, std::size_t n_sweeps, double tol) {
    const Buffer hessian(hessian_.ptr(), "hessian", {Type::f64}, 2),
        l1(l1_.ptr(), "l1", {Type::f64}, 1), l2(l2_.ptr(), "l2", {Type::f64}, 1),
        w(w_.ptr(), "w", {Type::f64}, 1, true),
        gradient(gradient_.ptr(), "gradient", {Type::f64}, 1, true);
    const std::size_t p = w.extent(0);
    hessian.expect_shape({p, p});
    for (const Buffer* buffer : {&l1, &l2, &gradient}) buffer->expect_shape({p});
    Swept swept{0, 0.0};
    nb::gil_scoped_release released;
    while (swept.count < n_sweeps) {
        swept.largest = descent_loops().sweep_gram(hessian.data<const double>(), p,
                                                   l1.data<const double>(), l2.data<const double>(),
                                                   w.data<double>(), gradient.data<double>());
        ++swept.count;
        if (swept.largest <= tol) break;
    }
    nb::gil_scoped_acquire acquired;
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
