// Functions of the Python module for asynchronous steps, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "svrg.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <deque>
#include <memory>
#include <optional>
#include <variant>

using namespace nb::literals;
using namespace mercer;

namespace {

// Arrays that something keeps for as long as it lives.
class Holder {
  public:
    const Buffer& hold(nb::handle object, const char* name, std::initializer_list<Type> accepted,
                       int ndim) {
        return held_.emplace_back(object.ptr(), name, accepted, ndim);
    }

  private:
    std::deque<Buffer> held_;  // which stay where they are
};

void check_rising(const Buffer& starts, std::size_t end) {
    const auto* first = starts.data<const std::int64_t>();
    if (starts.extent(0) == 0) starts.fail("must have at least one entry", "none");
    const std::size_t p = starts.extent(0) - 1;
    for (std::size_t k = 0; k < p; ++k)
        if (first[0] != 0 || first[k] > first[k + 1])
            starts.fail("must rise from 0", "another order");
    if (static_cast<std::size_t>(first[p]) != end)
        starts.fail("must end with the number of entries", std::to_string(first[p]));
}

using AnyView =
    std::variant<DenseRows<float>, DenseRows<double>, DenseRows<Half>, SparseRows<float>,
                 SparseRows<double>, CodeRows<std::uint8_t, float>, CodeRows<std::uint16_t, float>,
                 CodeRows<std::uint32_t, float>, CodeRows<std::uint8_t, double>,
                 CodeRows<std::uint16_t, double>, CodeRows<std::uint32_t, double>,
                 ColumnArray<float>, ColumnArray<double>, ColumnLists>;

template <class View>
constexpr bool is_kept = false;
template <class T>
constexpr bool is_kept<ColumnArray<T>> = true;
template <>
constexpr bool is_kept<ColumnLists> = true;

// An optional array of one axis: null where None was given.
const double* optional(std::optional<Buffer>& place, nb::handle object, const char* name,
                       std::size_t length) {
    if (object.is_none()) return nullptr;
    place.emplace(object.ptr(), name, std::initializer_list{Type::f64}, 1);
    place->expect_shape({length});
    return place->data<const double>();
}

// A design as steps see it: rows, or columns beside which the responses of all rows are kept.
class Steps {
  public:
    Steps() = default;
    Steps(const Steps&) = delete;
    static std::unique_ptr<Steps> dense(nb::handle rows) {
        auto made = std::make_unique<Steps>();
        const Buffer& buffer =
            made->arrays_.hold(rows, "rows", {Type::f32, Type::f64, Type::u16}, 2);
        const std::size_t n = buffer.extent(0), p = buffer.extent(1);
        if (buffer.type() == Type::f32)
            made->view_ = DenseRows<float>{buffer.data<const float>(), n, p};
        else if (buffer.type() == Type::f64)
            made->view_ = DenseRows<double>{buffer.data<const double>(), n, p};
        else
            made->view_ = DenseRows<Half>{buffer.data<const Half>(), n, p};
        return made;
    }
    static std::unique_ptr<Steps> sparse(nb::handle data, nb::handle indices, nb::handle indptr,
                                         std::size_t p) {
        auto made = std::make_unique<Steps>();
        const Buffer& values = made->arrays_.hold(data, "data", {Type::f32, Type::f64}, 1);
        const Buffer& columns = made->arrays_.hold(indices, "indices", {Type::i32}, 1);
        const Buffer& starts = made->arrays_.hold(indptr, "indptr", {Type::i64}, 1);
        columns.expect_shape({values.extent(0)});
        check_rising(starts, values.extent(0));
        const auto* first = starts.data<const std::int64_t>();
        const auto* column = columns.data<const std::int32_t>();
        const std::size_t n = starts.extent(0) - 1;
        for (std::size_t i = 0; i < n; ++i)
            for (auto e = first[i]; e < first[i + 1]; ++e)
                if (static_cast<std::uint32_t>(column[e]) >= p ||
                    (e > first[i] && column[e - 1] >= column[e]))
                    columns.fail("must ascend within a row, below the number of columns",
                                 std::to_string(column[e]));
        with_float(values.type(), [&](auto zero) {
            using T = decltype(zero);
            made->view_ = SparseRows<T>{values.data<const T>(), column, first, n, p};
        });
        return made;
    }
    static std::unique_ptr<Steps> codes(nb::handle codes_, nb::handle offsets, double scale,
                                        bool single) {
        auto made = std::make_unique<Steps>();
        const Buffer& codes =
            made->arrays_.hold(codes_, "codes", {Type::u8, Type::u16, Type::u32}, 2);
        const Buffer& starts = made->arrays_.hold(offsets, "offsets", {Type::i64}, 1);
        const std::size_t n = codes.extent(0), n_grids = codes.extent(1);
        starts.expect_shape({n_grids + 1});
        const auto* first = starts.data<const std::int64_t>();
        const auto p = static_cast<std::size_t>(first[n_grids]);
        check_rising(starts, p);
        with_code(codes.type(), [&](auto code) {
            using Code = decltype(code);
            const Code* numbers = codes.data<const Code>();
            if (single)
                made->view_ = CodeRows<Code, float>{numbers, first, scale, n, n_grids, p};
            else
                made->view_ = CodeRows<Code, double>{numbers, first, scale, n, n_grids, p};
        });
        return made;
    }
    static std::unique_ptr<Steps> kept_dense(nb::handle columns) {
        auto made = std::make_unique<Steps>();
        const Buffer& buffer = made->arrays_.hold(columns, "columns", {Type::f32, Type::f64}, 2);
        const std::size_t p = buffer.extent(0), n = buffer.extent(1);
        with_float(buffer.type(), [&](auto zero) {
            using T = decltype(zero);
            made->view_ = ColumnArray<T>{buffer.data<const T>(), n, p};
        });
        return made;
    }
    static std::unique_ptr<Steps> kept_lists(nb::handle starts, nb::handle rows, nb::handle values,
                                             double scale, std::size_t n) {
        auto made = std::make_unique<Steps>();
        made->view_ = made->lists(starts, rows, values, scale, n);
        return made;
    }

    // Rows of a step are drawn from these lists, those of its column, from now on.
    void draw_from(nb::handle starts, nb::handle rows, nb::handle values, double scale) {
        const ColumnLists supports = lists(starts, rows, values, scale, n());
        if (supports.p != p())
            throw std::invalid_argument(
                "starts must have an entry more than there are columns; got " +
                std::to_string(supports.p + 1) + ".");
        supports_ = supports;
    }

    template <class F>
    auto visit(F f) const {
        return std::visit(f, view_);
    }
    std::size_t n() const {
        return visit([](const auto& view) { return view.n; });
    }
    std::size_t p() const {
        return visit([](const auto& view) { return view.p; });
    }
    bool keeps() const {
        return visit([](const auto& view) { return is_kept<std::decay_t<decltype(view)>>; });
    }

    const ColumnLists* supports() const { return supports_ ? &*supports_ : nullptr; }

  private:
    ColumnLists lists(nb::handle starts_, nb::handle rows_, nb::handle values, double scale,
                      std::size_t n_rows) {
        const Buffer& starts = arrays_.hold(starts_, "starts", {Type::i64}, 1);
        const Buffer& rows = arrays_.hold(rows_, "rows", {Type::u32}, 1);
        check_rising(starts, rows.extent(0));
        const auto* first = starts.data<const std::int64_t>();
        const auto* row = rows.data<const std::uint32_t>();
        for (std::size_t j = 0; j + 1 < starts.extent(0); ++j)
            for (auto e = first[j]; e < first[j + 1]; ++e)
                if (row[e] >= n_rows || (e > first[j] && row[e - 1] >= row[e]))
                    rows.fail("must ascend within a column, below the number of rows",
                              std::to_string(row[e]));
        const double* numbers = nullptr;
        if (!values.is_none()) {
            const Buffer& buffer = arrays_.hold(values, "values", {Type::f64}, 1);
            buffer.expect_shape({rows.extent(0)});
            numbers = buffer.data<const double>();
        }
        return {first, row, numbers, scale, n_rows, starts.extent(0) - 1};
    }

    Holder arrays_;
    AnyView view_;
    std::optional<ColumnLists> supports_;
};

LossSlopes* slopes_of(const std::string& loss) {
    std::string known;
    for (int k = 0; k < n_losses; ++k) {
        if (loss_names[k] == loss) return svrg_loops().slopes[k];
        known += (k ? ", " : "") + std::string(loss_names[k]);
    }
    throw std::invalid_argument("loss must be one of " + known + "; got " + loss + ".");
}

// What all calls say of the objective, and the arrays that it is made of.
class ObjectiveArguments {
  public:
    ObjectiveArguments(const Steps& steps, nb::handle y, nb::handle weights,
                       const std::string& loss, double parameter, nb::handle w, nb::handle slopes,
                       nb::handle u)
        : y_(y.ptr(), "y", {Type::f64}, 1), w_(w.ptr(), "w", {Type::f64}, 1, true),
          slopes_(slopes.ptr(), "slopes", {Type::f64}, 1, true) {
        const std::size_t n = steps.n();
        y_.expect_shape({n});
        slopes_.expect_shape({n});
        const std::size_t q = w_.extent(0);
        if (q != steps.p() && q != steps.p() + 1)
            w_.fail("must have an entry per column, and maybe one for the intercept",
                    std::to_string(q));
        if (steps.keeps()) {
            u_.emplace(u.ptr(), "u", std::initializer_list{Type::f64}, 1, true);
            u_->expect_shape({n});
            margins_.emplace(n);
            for (std::size_t i = 0; i < n; ++i) (*margins_)[i] = u_->data<const double>()[i];
        }
        objective = {y_.data<const double>(),
                     optional(weights_, weights, "weights", n),
                     slopes_of(loss),
                     parameter,
                     nullptr,
                     nullptr,
                     q};
    }
    double* w() const { return w_.data<double>(); }
    double* slopes() const { return slopes_.data<double>(); }
    // Calls f with the view; responses that were kept are written back.
    template <class F>
    auto run(const Steps& steps, int n_threads, F f) {
        return steps.visit([&](const auto& view) {
            nb::gil_scoped_release released;
            if constexpr (is_kept<std::decay_t<decltype(view)>>) {
                const Kept<std::decay_t<decltype(view)>> kept(view, *margins_, n_threads <= 1);
                auto result = f(kept);
                for (std::size_t i = 0; i < margins_->size(); ++i)
                    u_->data<double>()[i] = (*margins_)[i];
                return result;
            } else {
                return f(view);
            }
        });
    }
    Objective objective;

  private:
    Buffer y_, w_, slopes_;
    std::optional<Buffer> weights_, u_;
    std::optional<Margins> margins_;
};

void slopes(const Steps& steps, nb::handle y, nb::handle weights, const std::string& loss,
            double parameter, nb::handle w, nb::handle slopes, nb::handle u, int n_threads) {
    ObjectiveArguments arguments(steps, y, weights, loss, parameter, w, slopes, u);
    arguments.run(steps, n_threads, [&](const auto& view) {
        snapshot_slopes(view, arguments.objective, arguments.w(), arguments.slopes(), n_threads);
        return 0;
    });
}

nb::tuple walk_steps(const Steps& steps, nb::handle y, nb::handle weights, const std::string& loss,
                     double parameter, nb::handle w, nb::handle slopes, nb::handle u,
                     nb::handle gradient_, nb::handle lengths_, nb::handle l1_, nb::handle l2_,
                     std::uint64_t key, std::uint64_t slot, std::uint64_t first, std::size_t count,
                     std::size_t batch, std::size_t width, int n_threads) {
    ObjectiveArguments arguments(steps, y, weights, loss, parameter, w, slopes, u);
    const Buffer gradient(gradient_.ptr(), "gradient", {Type::f64}, 1),
        lengths(lengths_.ptr(), "steps", {Type::f64}, 1), l1(l1_.ptr(), "l1", {Type::f64}, 1),
        l2(l2_.ptr(), "l2", {Type::f64}, 1);
    const std::size_t q = arguments.objective.q;
    for (const Buffer* buffer : {&gradient, &lengths, &l1, &l2}) buffer->expect_shape({q});
    if (batch == 0 || width == 0 || width > q || (width > 1 && steps.supports()))
        throw std::invalid_argument(
            "batch and width must be at least 1, and width at most the number of coordinates, or 1 "
            "with supports; got " +
            std::to_string(batch) + " and " + std::to_string(width) + ".");
    arguments.objective.l1 = l1.data<const double>();
    arguments.objective.l2 = l2.data<const double>();
    const Snapshot snapshot{arguments.slopes(), gradient.data<const double>(),
                            lengths.data<const double>()};
    const Course course{key, slot, first, count, batch, width, steps.supports()};
    const Walked walked = arguments.run(steps, n_threads, [&](const auto& view) {
        return walk(view, arguments.objective, snapshot, course, arguments.w(),
                    std::max(n_threads, 1));
    });
    return nb::make_tuple(walked.moves, walked.finite);
}

void loss_slopes(const std::string& loss, double parameter, nb::handle u_, nb::handle y_,
                 nb::handle out_) {
    const Buffer u(u_.ptr(), "u", {Type::f64}, 1), y(y_.ptr(), "y", {Type::f64}, 1),
        out(out_.ptr(), "out", {Type::f64}, 1, true);
    y.expect_shape({u.extent(0)});
    out.expect_shape({u.extent(0)});
    LossSlopes* of = slopes_of(loss);
    nb::gil_scoped_release released;
    of(u.data<const double>(), y.data<const double>(), u.extent(0), parameter, out.data<double>());
}

}  // namespace

void add_svrg(nb::module_& m) {
    nb::class_<Steps>(m, "AsyncSteps")
        .def_static("dense", &Steps::dense, "rows"_a)
        .def_static("sparse", &Steps::sparse, "data"_a, "indices"_a, "indptr"_a, "n_columns"_a)
        .def_static("codes", &Steps::codes, "codes"_a, "offsets"_a, "scale"_a, "single"_a)
        .def_static("kept_dense", &Steps::kept_dense, "columns"_a)
        .def_static("kept_lists", &Steps::kept_lists, "starts"_a, "rows"_a, "values"_a.none(),
                    "scale"_a, "n_rows"_a)
        .def("draw_from", &Steps::draw_from, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a)
        .def("slopes", &slopes, "y"_a, "weights"_a.none(), "loss"_a, "parameter"_a, "w"_a,
             "slopes"_a, "u"_a.none(), "n_threads"_a)
        .def("walk", &walk_steps, "y"_a, "weights"_a.none(), "loss"_a, "parameter"_a, "w"_a,
             "slopes"_a, "u"_a.none(), "gradient"_a, "steps"_a, "l1"_a, "l2"_a, "key"_a, "slot"_a,
             "first"_a, "count"_a, "batch"_a, "width"_a, "n_threads"_a);
    m.def("loss_slopes", &loss_slopes, "loss"_a, "parameter"_a, "u"_a, "y"_a, "out"_a);
}
