// Functions of the Python module for coordinate descent, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "descent.hpp"

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
    NetArguments(nb::handle l1, nb::handle l2, nb::handle curvature, nb::handle w,
                 nb::handle slope, nb::handle row_curvature, std::size_t p, std::size_t n)
        : l1_(l1.ptr(), "l1", {Type::f64}, 1), l2_(l2.ptr(), "l2", {Type::f64}, 1),
          curvature_(curvature.ptr(), "curvature", {Type::f64}, 1),
          w_(w.ptr(), "w", {Type::f64}, 1, true), slope_(slope.ptr(), "slope", {Type::f64}, 1, true),
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

nb::tuple swept_tuple(Swept swept) { return nb::make_tuple(swept.count, swept.largest); }

nb::tuple columns(nb::handle starts_, nb::handle rows_, nb::handle values_, double scale,
                  nb::handle groups_, nb::handle l1, nb::handle l2, nb::handle curvature,
                  nb::handle w, nb::handle slope, nb::handle row_curvature, std::size_t n_sweeps,
                  double tol, int n_threads) {
    const Buffer starts(starts_.ptr(), "starts", {Type::i64}, 1),
        rows(rows_.ptr(), "rows", {Type::u32}, 1), groups(groups_.ptr(), "groups", {Type::i64}, 1),
        slopes(slope.ptr(), "slope", {Type::f64}, 1);
    const std::size_t n = slopes.extent(0), p = starts.extent(0) - 1;
    const NetArguments arguments(l1, l2, curvature, w, slope, row_curvature, p, n);
    const Optional values(values_, "values", {Type::f64}, rows.extent(0));
    const SparseColumns<double> Z{starts.data<const std::int64_t>(),
                                  rows.data<const std::uint32_t>(),
                                  values.data<double>(), scale, n, p};
    nb::gil_scoped_release released;
    const Swept swept = descend_columns(Z, groups.data<const std::int64_t>(), groups.extent(0) - 1,
                                        arguments.net, arguments.row_curvature(),
                                        arguments.slope(), {n_sweeps, tol}, n_threads);
    nb::gil_scoped_acquire acquired;
    return swept_tuple(swept);
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
        return descend_grids(Z, arguments.net, arguments.row_curvature(), arguments.slope(),
                             {n_sweeps, tol}, n_threads);
    });
    return swept_tuple(swept);
}

nb::tuple gram(nb::handle hessian_, nb::handle l1_, nb::handle l2_, nb::handle w_,
               nb::handle gradient_, std::size_t n_sweeps, double tol) {
    const Buffer hessian(hessian_.ptr(), "hessian", {Type::f64}, 2), l1(l1_.ptr(), "l1", {Type::f64}, 1),
        l2(l2_.ptr(), "l2", {Type::f64}, 1), w(w_.ptr(), "w", {Type::f64}, 1, true),
        gradient(gradient_.ptr(), "gradient", {Type::f64}, 1, true);
    const std::size_t p = w.extent(0);
    hessian.expect_shape({p, p});
    for (const Buffer* buffer : {&l1, &l2, &gradient}) buffer->expect_shape({p});
    Swept swept{0, 0.0};
    nb::gil_scoped_release released;
    while (swept.count < n_sweeps) {
        swept.largest = descent_loops().sweep_gram(
            hessian.data<const double>(), p, l1.data<const double>(), l2.data<const double>(),
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
          "groups"_a, "l1"_a, "l2"_a, "curvature"_a, "w"_a, "slope"_a, "row_curvature"_a.none(),
          "n_sweeps"_a, "tol"_a, "n_threads"_a);
    m.def("descend_grids", &grids, "codes"_a, "offsets"_a, "scale"_a, "l1"_a, "l2"_a,
          "curvature"_a, "w"_a, "slope"_a, "row_curvature"_a.none(), "n_sweeps"_a, "tol"_a,
          "n_threads"_a);
    m.def("descend_gram", &gram, "hessian"_a, "l1"_a, "l2"_a, "w"_a, "gradient"_a, "n_sweeps"_a,
          "tol"_a);
}
