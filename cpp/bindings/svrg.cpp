// Functions of the Python module for asynchronous steps, as bindings.cpp does it for the rest.
#include "svrg.hpp"
#include "arguments.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

using namespace nb::literals;
using namespace mercer;

namespace {

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

// A design as steps see it: rows, or columns beside which the responses of all rows are kept.
class Steps {
  public:
    Steps() = default;
    Steps(const Steps&) = delete;
    static std::unique_ptr<Steps> dense(Array<Type::f32, Type::f64, Type::u16> rows) {
        auto made = std::make_unique<Steps>();
        const Buffer& buffer = made->arrays_.read(rows, "rows", 2);
        const std::size_t n = buffer.extent(0), p = buffer.extent(1);
        if (buffer.type() == Type::f32)
            made->view_ = DenseRows<float>{buffer.data<const float>(), n, p};
        else if (buffer.type() == Type::f64)
            made->view_ = DenseRows<double>{buffer.data<const double>(), n, p};
        else
            made->view_ = DenseRows<Half>{buffer.data<const Half>(), n, p};
        return made;
    }
    static std::unique_ptr<Steps> sparse(Floats data, Array<Type::i32> indices, Integers indptr,
                                         std::size_t p) {
        auto made = std::make_unique<Steps>();
        const Buffer& values = made->arrays_.read(data, "data", 1);
        const Buffer& columns = made->arrays_.read(indices, "indices", 1);
        const Buffer& starts = made->arrays_.read(indptr, "indptr", 1);
        columns.expect_shape({values.extent(0)});
        expect_lists<std::int32_t>(starts, columns, p, "row, below the number of columns");
        with_float(values.type(), [&](auto zero) {
            using T = decltype(zero);
            made->view_ = SparseRows<T>{values.data<const T>(), columns.data<const std::int32_t>(),
                                        starts.data<const std::int64_t>(), starts.extent(0) - 1, p};
        });
        return made;
    }
    static std::unique_ptr<Steps> codes(Codes codes_, Integers offsets, double scale, bool single) {
        auto made = std::make_unique<Steps>();
        const Buffer& codes = made->arrays_.read(codes_, "codes", 2);
        const std::size_t n = codes.extent(0), n_grids = codes.extent(1);
        const std::int64_t* first = read_offsets(made->arrays_, offsets, n_grids);
        const auto p = static_cast<std::size_t>(first[n_grids]);
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
    static std::unique_ptr<Steps> kept_dense(Floats columns) {
        auto made = std::make_unique<Steps>();
        const Buffer& buffer = made->arrays_.read(columns, "columns", 2);
        const std::size_t p = buffer.extent(0), n = buffer.extent(1);
        with_float(buffer.type(), [&](auto zero) {
            using T = decltype(zero);
            made->view_ = ColumnArray<T>{buffer.data<const T>(), n, p};
        });
        return made;
    }
    static std::unique_ptr<Steps> kept_lists(Integers starts, Array<Type::u32> rows, Doubles values,
                                             double scale, std::size_t n) {
        auto made = std::make_unique<Steps>();
        made->view_ = made->lists(starts, rows, values, scale, n);
        return made;
    }

    // Rows of a step are drawn from these lists, those of its column, from now on.
    void draw_from(Integers starts, Array<Type::u32> rows, Doubles values, double scale) {
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

    const std::optional<ColumnLists>& supports() const { return supports_; }

  private:
    ColumnLists lists(Integers starts_, Array<Type::u32> rows_, Doubles values, double scale,
                      std::size_t n_rows) {
        const Buffer& starts = arrays_.read(starts_, "starts", 1);
        const Buffer& rows = arrays_.read(rows_, "rows", 1);
        expect_lists<std::uint32_t>(starts, rows, n_rows, "column, below the number of rows");
        return {starts.data<const std::int64_t>(),
                rows.data<const std::uint32_t>(),
                arrays_.optional(values, "values", rows.extent(0)),
                scale,
                n_rows,
                starts.extent(0) - 1};
    }

    Arrays arrays_;
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
    ObjectiveArguments(const Steps& steps, Doubles y, Doubles weights, const std::string& loss,
                       double parameter, Doubles w, Doubles slopes, Doubles u)
        : w_(arrays.write(w, "w", 1)), slopes_(arrays.write(slopes, "slopes", 1)) {
        const std::size_t n = steps.n();
        const double* targets = arrays.numbers(y, "y", n);
        slopes_.expect_shape({n});
        const std::size_t q = w_.extent(0);
        if (q != steps.p() && q != steps.p() + 1)
            w_.fail("must have an entry per column, and maybe one for the intercept",
                    std::to_string(q));
        if (steps.keeps()) {
            u_ = &arrays.write(u, "u", 1);
            u_->expect_shape({n});
            margins_.emplace(n);
            for (std::size_t i = 0; i < n; ++i) (*margins_)[i] = u_->data<const double>()[i];
        }
        objective = {targets,
                     arrays.optional(weights, "weights", n),
                     slopes_of(loss),
                     parameter,
                     nullptr,
                     nullptr,
                     q};
    }
    double* w() const { return w_.data<double>(); }
    double* slopes() const { return slopes_.data<double>(); }
    // Calls f with the view; responses that were kept are written back.
    void run(const Steps& steps, int n_threads, FunctionRef<const View&> f) {
        const Released released(arrays);
        steps.visit([&](const auto& of) {
            using Of = std::decay_t<decltype(of)>;
            if constexpr (is_kept<Of>)
                f(ViewOf(Kept<Of>(of, *margins_, n_threads <= 1)));
            else
                f(ViewOf(of));
        });
        for (std::size_t i = 0; margins_ && i < margins_->size(); ++i)
            u_->data<double>()[i] = (*margins_)[i];
    }
    Arrays arrays;
    Objective objective;

  private:
    const Buffer &w_, &slopes_, *u_ = nullptr;
    std::optional<Margins> margins_;
};

void slopes(const Steps& steps, Doubles y, Doubles weights, const std::string& loss,
            double parameter, Doubles w, Doubles slopes, Doubles u, Threads n_threads,
            Doubles rows) {
    ObjectiveArguments arguments(steps, y, weights, loss, parameter, w, slopes, u);
    const double* curvature = arguments.arrays.optional(rows, "rows", steps.n());
    arguments.run(steps, n_threads, [&](const View& view) {
        snapshot_slopes(view, arguments.objective, arguments.w(), curvature, arguments.slopes(),
                        n_threads);
    });
}

std::pair<std::size_t, bool>
walk_steps(const Steps& steps, Doubles y, Doubles weights, const std::string& loss,
           double parameter, Doubles w, Doubles slopes, Doubles u, Doubles gradient,
           Doubles lengths, Doubles l1, Doubles l2, std::uint64_t key, std::uint64_t slot,
           std::uint64_t first, std::size_t count, std::size_t batch, std::size_t width,
           Threads n_threads, Doubles rows, Array<Type::f32> matrix, Doubles anchor, double scale) {
    ObjectiveArguments arguments(steps, y, weights, loss, parameter, w, slopes, u);
    const std::size_t q = arguments.objective.q;
    // A copy: others may draw from other lists meanwhile.
    const std::optional<ColumnLists> supports = steps.supports();
    if (batch == 0 || width == 0 || width > q || (width > 1 && supports))
        throw std::invalid_argument(
            "batch and width must be at least 1, and width at most the number of coordinates, or 1 "
            "with supports; got " +
            std::to_string(batch) + " and " + std::to_string(width) + ".");
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(Change) / width)
        throw std::invalid_argument("count must leave room for all changes in memory; got " +
                                    std::to_string(count) + ".");
    Arrays& arrays = arguments.arrays;
    arguments.objective.l1 = arrays.numbers(l1, "l1", q);
    arguments.objective.l2 = arrays.numbers(l2, "l2", q);
    std::optional<Curvature> curvature;
    if (!matrix.is_none()) {
        const Buffer& H = arrays.read(matrix, "matrix", 2);
        H.expect_shape({q, q});
        curvature = Curvature{H.data<const float>(), arrays.numbers(rows, "rows", steps.n()),
                              arrays.numbers(anchor, "anchor", q), scale};
    }
    const Snapshot snapshot{arguments.slopes(), arrays.numbers(gradient, "gradient", q),
                            arrays.numbers(lengths, "steps", q), curvature ? &*curvature : nullptr};
    const Course course{key, slot, first, count, batch, width, supports ? &*supports : nullptr};
    Walked walked{};
    arguments.run(steps, n_threads, [&](const View& view) {
        walked = walk(view, arguments.objective, snapshot, course, arguments.w(), n_threads);
    });
    return {walked.moves, walked.finite};
}

void loss_slopes(const std::string& loss, double parameter, Doubles u_, Doubles y_, Doubles out_) {
    Arrays arrays;
    const Buffer& u = arrays.read(u_, "u", 1);
    const double* y = arrays.numbers(y_, "y", u.extent(0));
    const Buffer& out = arrays.write(out_, "out", 1);
    out.expect_shape({u.extent(0)});
    LossSlopes* of = slopes_of(loss);
    const Released released(arrays);
    of(u.data<const double>(), y, u.extent(0), parameter, out.data<double>());
}

}  // namespace

void add_svrg(nb::module_& m) {
    m.def("loss_slopes", &loss_slopes, "loss"_a, "parameter"_a, "u"_a, "y"_a, "out"_a,
          R"(Derivatives of a loss at responses u for targets y. ``loss`` is the name of a class of
losses and ``parameter`` its delta or sigma.)");
    nb::class_<Steps>(
        m, "AsyncSteps",
        R"(A design as steps see it; it keeps the arrays it is made of, which must not change.

Steps minimise (1/n) sum_i weight_i loss(y_i, z_i w + b) with an l1 and an l2 part for
every coordinate; w has an entry per column and, for an intercept, one more. Losses are
those of ``loss_slopes``. Responses that are kept are ``u``, those of the intercept
included, and None where they are recomputed.)")
        .def_static("dense", &Steps::dense, "rows"_a,
                    "Of rows (n, p); uint16 are the upper halves of float32 numbers.")
        .def_static("sparse", &Steps::sparse, "data"_a, "indices"_a, "indptr"_a, "n_columns"_a,
                    "Of compressed sparse rows, whose columns ascend.")
        .def_static("codes", &Steps::codes, "codes"_a, "offsets"_a, "scale"_a, "single"_a,
                    "Of codes (n, R); ``single`` says whether weights are read in float32.")
        .def_static("kept_dense", &Steps::kept_dense, "columns"_a,
                    "Of columns (p, n), with responses that are kept.")
        .def_static("kept_lists", &Steps::kept_lists, "starts"_a, "rows"_a, "values"_a.none(),
                    "scale"_a, "n_rows"_a,
                    "Of columns as lists of rows, ascending, with responses that are kept.")
        .def("draw_from", &Steps::draw_from, "starts"_a, "rows"_a, "values"_a.none(), "scale"_a,
             "From now on rows of a step are among those in the list of its column.")
        .def(
            "slopes", &slopes, "y"_a, "weights"_a.none(), "loss"_a, "parameter"_a, "w"_a,
            "slopes"_a, "u"_a.none(), "n_threads"_a, "rows"_a.none() = nb::none(),
            R"(weight_i times the derivative of the loss of every row, responses u_i as steps have them.

``rows``, if given, are those of ``walk``, and rows_i u_i is subtracted.)")
        .def(
            "walk", &walk_steps, "y"_a, "weights"_a.none(), "loss"_a, "parameter"_a, "w"_a,
            "slopes"_a, "u"_a.none(), "gradient"_a, "steps"_a, "l1"_a, "l2"_a, "key"_a, "slot"_a,
            "first"_a, "count"_a, "batch"_a, "width"_a, "n_threads"_a, "rows"_a.none() = nb::none(),
            "matrix"_a.none() = nb::none(), "anchor"_a.none() = nb::none(), "scale"_a = 1.0,
            R"(Steps first .. first + count - 1 on w, along ``width`` neighbouring coordinates each.

``slopes`` and ``gradient``, of the mean loss, belong to the snapshot; ``steps`` are the
lengths of the proximal steps. The low and high halves of the words of stream t of
``slot`` choose the coordinate and then the rows of step t: a half h stands for h * n >>
32.

With ``matrix``, which is H = (1/n) sum_i rows_i z_i z_i', a step is along one of the
blocks of ``width`` coordinates from the first on. Its gradient is that of the snapshot at
``anchor``, plus H (w - anchor), plus what the derivatives of its rows have changed
besides; and it goes to the minimum of that model, with ``scale`` times the block of H.

Returns how many coordinates moved and whether all stayed finite.)");
}
