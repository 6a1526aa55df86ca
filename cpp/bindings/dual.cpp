// Functions of the Python module for dual kernel machines, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "greedy.hpp"
#include "pairs.hpp"
#include "sparse_rows.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <tuple>
#include <variant>

using namespace nb::literals;
using namespace mercer;

KernelKind kernel_named(const std::string& name);  // bindings_kernels.cpp

namespace {

// Places among `n`, as they were when they were looked at.
std::vector<std::size_t> places(Arrays& arrays, Integers array, const char* name, std::size_t n) {
    const Buffer& buffer = arrays.read(array, name, 1);
    const auto* numbers = buffer.data<const std::int64_t>();
    std::vector<std::size_t> out(numbers, numbers + buffer.extent(0));
    for (std::size_t place : out)
        if (place >= n)
            throw std::invalid_argument(std::string(name) + " must be below " + std::to_string(n) +
                                        " and not negative.");
    return out;
}

void add(Floats rows_, Integers places_, Doubles steps_, Doubles sums_, Threads n_threads) {
    Arrays arrays;
    const Buffer& held = arrays.read(rows_, "rows", 2);
    const std::size_t n = held.extent(1);
    const std::vector<std::size_t> wanted = places(arrays, places_, "places", held.extent(0));
    const double* steps = arrays.numbers(steps_, "steps", wanted.size());
    const Buffer& sums = arrays.write(sums_, "sums", 1);
    sums.expect_shape({n});
    with_float(held.type(), [&](auto zero) {
        using Row = decltype(zero);
        std::vector<const Row*> rows;
        for (std::size_t place : wanted) rows.push_back(held.data<const Row>() + place * n);
        const Released released(arrays);
        add_rows(rows, steps, n, sums.data<double>(), n_threads);
    });
}

// Where kernel rows come from, in the type they are held in, with the arrays they are made of.
class Rows {
  public:
    template <class Row>
    using Source = std::unique_ptr<RowSource<Row>>;

    // Of dense rows, by a kernel of the core.
    Rows(const std::string& kernel, Floats X, Doubles centre_, Doubles scale_, double parameter,
         const std::string& dtype, Threads n_threads, bool single) {
        const KernelKind kind = kernel_named(kernel);
        const Buffer& x = kept_.read(X, "X", 2);
        const std::size_t n = x.extent(0), d = x.extent(1);
        const double* centre = kept_.numbers(centre_, "centre", d);
        const double* scale = kept_.numbers(scale_, "scale", d);
        with_float(x.type(), [&](auto zero) {
            using In = decltype(zero);
            const KernelWork<In> work{kind,  x.data<const In>(), nullptr, n, n, d, centre,
                                      scale, parameter,          nullptr};
            with_float(type_named(dtype), [&](auto held) {
                const Released released(kept_);
                source = dense_rows<In, decltype(held)>(work, n_threads,
                                                        single ? Accuracy::single : Accuracy::full);
            });
        });
    }
    // The same of CSR rows, scaled.
    Rows(const std::string& kernel, Doubles data_, Array<Type::u32> indices_, Integers indptr_,
         std::size_t n_inputs, double parameter, const std::string& dtype) {
        const KernelKind kind = kernel_named(kernel);
        if (kind == KernelKind::cauchy)
            throw std::invalid_argument("kernel must be a function of a distance; got cauchy.");
        const Buffer& data = kept_.read(data_, "data", 1);
        const Buffer& indices = kept_.read(indices_, "indices", 1);
        const Buffer& indptr = kept_.read(indptr_, "indptr", 1);
        if (n_inputs >> 32)
            throw std::invalid_argument("n_inputs must be below 2^32; got " +
                                        std::to_string(n_inputs) + ".");
        indices.expect_shape({data.extent(0)});
        expect_lists<std::uint32_t>(indptr, indices, n_inputs, "row");
        const CsrRows csr{data.data<const double>(), indices.data<const std::uint32_t>(),
                          indptr.data<const std::int64_t>(), nullptr};
        with_float(type_named(dtype), [&](auto zero) {
            using Row = decltype(zero);
            source = std::make_unique<SparseKernelRows<Row>>(kind, csr, indptr.extent(0) - 1,
                                                             n_inputs, parameter);
        });
    }
    // Of a matrix that is there.
    explicit Rows(Floats matrix) {
        const Buffer& k = kept_.read(matrix, "matrix", 2);
        k.expect_shape({k.extent(0), k.extent(0)});
        with_float(k.type(), [&](auto zero) {
            using Row = decltype(zero);
            source = std::make_unique<MatrixRows<Row>>(k.data<const Row>(), k.extent(0));
        });
    }
    // By a Python function: function(rows, first, last) gives columns first .. last - 1 of rows.
    using Function = nb::typed<nb::callable, Floats(Integers, std::size_t, std::size_t)>;
    Rows(std::size_t n, std::size_t at_once, Function function, const std::string& dtype) {
        if (at_once == 0) throw std::invalid_argument("at_once must be at least 1; got 0.");
        with_float(type_named(dtype), [&](auto zero) {
            using Row = decltype(zero);
            source = std::make_unique<FunctionRows<Row>>(
                n, at_once,
                [function](const std::size_t* rows, std::size_t count, std::size_t first,
                           std::size_t last, Row* const* out) {
                    nb::gil_scoped_acquire acquired;
                    std::vector<std::int64_t> wanted(rows, rows + count);
                    const nb::object made = function(new_integers(wanted), first, last);
                    const Buffer block(made.ptr(), "kernel rows",
                                       {sizeof(Row) == 4 ? Type::f32 : Type::f64}, 2);
                    block.expect_shape({count, last - first});
                    const auto* numbers = block.template data<const Row>();
                    for (std::size_t r = 0; r < count; ++r)
                        std::copy_n(numbers + r * (last - first), last - first, out[r]);
                });
        });
    }
    std::size_t n() const {
        return std::visit([](const auto& of_type) { return of_type->n(); }, source);
    }
    void fill(Integers rows_, Floats out_, Threads n_threads) const {
        Arrays arrays;
        const std::vector<std::size_t> rows = places(arrays, rows_, "rows", n());
        const Type type = source.index() == 0 ? Type::f32 : Type::f64;
        const Buffer& out = arrays.write(out_, "out", {type}, 2);
        out.expect_shape({rows.size(), n()});
        with_float(type, [&](auto zero) {
            using Row = decltype(zero);
            const Released released(arrays);
            fill_rows(*std::get<Source<Row>>(source), rows.data(), rows.size(), out.data<Row>(),
                      n_threads);
        });
    }
    std::variant<Source<float>, Source<double>> source;

  private:
    static Type type_named(const std::string& dtype) {
        if (dtype == "float32") return Type::f32;
        if (dtype == "float64") return Type::f64;
        throw std::invalid_argument("dtype must be float32 or float64; got " + dtype + ".");
    }
    Arrays kept_;
};

// The problem of n rows.
struct DualArguments {
    DualArguments(Arrays& arrays, Doubles linear, Doubles lower, Doubles upper, Doubles extra,
                  Doubles curvature, Doubles b_, Doubles sums_, std::size_t n) {
        const Buffer& b = arrays.write(b_, "b", 1);
        const Buffer& sums = arrays.write(sums_, "sums", 1);
        b.expect_shape({n});
        sums.expect_shape({n});
        dual = {arrays.numbers(linear, "linear", n),
                arrays.numbers(lower, "lower", n),
                arrays.numbers(upper, "upper", n),
                arrays.numbers(extra, "extra", n),
                arrays.numbers(curvature, "curvature", n),
                b.data<double>(),
                sums.data<double>()};
    }
    Dual dual;
};

// What is kept from run to run is for one run at a time.
class Turn {
  public:
    explicit Turn(std::atomic<bool>& taken) : taken_(taken) {
        if (taken_.exchange(true))
            throw std::runtime_error("run must not be called again before it has returned.");
    }
    Turn(const Turn&) = delete;
    ~Turn() { taken_ = false; }

  private:
    std::atomic<bool>& taken_;
};

// The numbers of updates and of kernel rows made, and what the stopping rule saw last.
using Result = std::tuple<std::size_t, std::size_t, double>;
Result result(const Ran& ran) {
    return {ran.n_updates, ran.n_rows, ran.score};
}

class Greedy {
  public:
    Greedy(const Rows& rows, Integers starts_, std::size_t bytes, std::size_t block) {
        Arrays arrays;
        const Buffer& starts = arrays.read(starts_, "starts", 1);
        const auto* first = starts.data<const std::int64_t>();
        const std::size_t size = starts.extent(0);
        if (size < 2 || size > Threads::most + 1)
            starts.fail("must have at least 2 and at most 1025 entries", std::to_string(size));
        if (const std::size_t end = end_of<std::int64_t>(starts, rows.n(), "rows"); end != rows.n())
            starts.fail("must rise from 0 to the number of rows", std::to_string(end));
        std::visit(
            [&](const auto& source) {
                descent_ = make(*source, {first, first + size}, bytes, block);
            },
            rows.source);
    }
    Result run(Doubles linear, Doubles lower, Doubles upper, Doubles extra, Doubles curvature,
               Doubles b, Doubles sums, double target, std::size_t max_updates) {
        expect_not_negative(target, "target");
        const Turn turn(taken_);
        return std::visit(
            [&](auto& descent) {
                Arrays arrays;
                const DualArguments given(arrays, linear, lower, upper, extra, curvature, b, sums,
                                          descent->n());
                const Released released(arrays);
                return result(descent->run(given.dual, target, max_updates));
            },
            descent_);
    }

  private:
    template <class Row>
    using Descent = std::unique_ptr<GreedyDescent<Row>>;
    template <class Row>
    static Descent<Row> make(const RowSource<Row>& source, std::vector<std::size_t> starts,
                             std::size_t bytes, std::size_t block) {
        return std::make_unique<GreedyDescent<Row>>(source, std::move(starts), bytes, block);
    }
    std::variant<Descent<float>, Descent<double>> descent_;
    std::atomic<bool> taken_{false};
};

// The numbers of pairs, and how much one still violates optimality.
std::tuple<std::size_t, double> descend(Floats matrix_, Doubles linear, Doubles lower,
                                        Doubles upper, Doubles extra, Doubles curvature, Doubles b,
                                        Doubles sums, double tol, std::size_t max_updates) {
    expect_not_negative(tol, "tol");
    Arrays arrays;
    const Buffer& matrix = arrays.read(matrix_, "matrix", 2);
    const std::size_t n = matrix.extent(0);
    matrix.expect_shape({n, n});
    const DualArguments given(arrays, linear, lower, upper, extra, curvature, b, sums, n);
    return with_float(matrix.type(), [&](auto zero) {
        using Row = decltype(zero);
        const Released released(arrays);
        const Ran ran = descend_pairs(matrix.data<const Row>(), n, given.dual, tol, max_updates);
        return std::tuple(ran.n_updates, ran.score);
    });
}

}  // namespace

void add_dual(nb::module_& m) {
    nb::class_<Rows>(
        m, "KernelRows",
        R"(Where rows of a kernel matrix K come from: dense or CSR rows, left where they are; a
matrix; or a function.

For X, ``kernel``, ``centre``, ``scale`` and ``parameter`` are those of
``kernel_block``; rows are held in ``dtype``, "float32" or "float64". CSR rows are scaled
already, and not for "cauchy". A function is
called as ``function(rows, first, last)``, with at most ``at_once`` rows, and returns
columns ``first`` .. ``last - 1`` of them in ``dtype``. With ``single``, float32 rows
have the errors of ``kernel_block`` with ``single``.)")
        .def(nb::init<const std::string&, Floats, Doubles, Doubles, double, const std::string&,
                      Threads, bool>(),
             "kernel"_a, "X"_a, "centre"_a, "scale"_a, "parameter"_a, "dtype"_a, "n_threads"_a,
             "single"_a = false)
        .def(nb::init<const std::string&, Doubles, Array<Type::u32>, Integers, std::size_t, double,
                      const std::string&>(),
             "kernel"_a, "data"_a, "indices"_a, "indptr"_a, "n_inputs"_a, "parameter"_a, "dtype"_a)
        .def(nb::init<Floats>(), "matrix"_a)
        .def(nb::init<std::size_t, std::size_t, Rows::Function, const std::string&>(), "n"_a,
             "at_once"_a, "function"_a, "dtype"_a)
        .def("fill", &Rows::fill, "rows"_a, "out"_a, "n_threads"_a,
             "Writes these rows into ``out`` (len(rows), n), an array of the dtype they are held "
             "in.")
        .def_prop_ro("n", &Rows::n, "Number of rows.");
    m.def(
        "add_rows", &add, "rows"_a, "places"_a, "steps"_a, "sums"_a, "n_threads"_a,
        R"(sums (n) += the rows (m, n) at some places times their steps, summed up in float64 in this
order, whatever the number of threads.)");
    nb::class_<Greedy>(
        m, "GreedyDescent",
        R"(Threads that each move the worst of their own variables, without waiting for each other.

Minimises b'Kb / 2 + sum_v (extra_v b_v**2 / 2 + linear_v b_v) over lower <= b <= upper.
``b`` and ``sums`` (n), which has to be Kb, are moved together; ``curvature`` is the
diagonal of K plus ``extra``. ``run`` returns the number of updates, the number of
kernel rows that had to be made, and what its stopping rule saw last.

Thread t owns ``starts[t]`` .. ``starts[t + 1] - 1`` and its share of ``cache_bytes``
for kernel rows, which are kept from run to run; it moves up to ``block`` variables at
once.)")
        .def(nb::init<const Rows&, Integers, std::size_t, std::size_t>(), nb::keep_alive<1, 2>(),
             "rows"_a, "starts"_a, "cache_bytes"_a, "block"_a)
        .def(
            "run", &Greedy::run, "linear"_a, "lower"_a, "upper"_a, "extra"_a, "curvature"_a, "b"_a,
            "sums"_a, "target"_a, "max_updates"_a,
            R"(Until |clip(b - slope) - b| is at most ``target``, as far as each thread can see. One
run at a time.)");
    m.def(
        "descend_pairs", &descend, "matrix"_a, "linear"_a, "lower"_a, "upper"_a, "extra"_a,
        "curvature"_a, "b"_a, "sums"_a, "tol"_a, "max_updates"_a,
        R"(Moves pairs of variables, whose sum stays what it is, until none violates the conditions of
optimality by more than ``tol``.

The problem is that of ``GreedyDescent`` with the kernel matrix (n, n). Returns the number
of pairs moved and how much one still violates optimality at most.)");
}
