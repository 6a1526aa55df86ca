// Functions of the Python module for weighted bins and for the sizes of bins, as bindings.cpp does
// it for the rest.
#include "buffer.hpp"
#include "occupancy.hpp"
#include "weighing.hpp"
#include "weighted_products.hpp"

#include <nanobind/nanobind.h>

#include <optional>

namespace nb = nanobind;
using namespace nb::literals;
using namespace mercer;

namespace {

template <class F>
auto with_float(Type type, F f) {
    return type == Type::f32 ? f(float()) : f(double());
}

template <class F>
auto with_code(Type type, F f) {
    switch (type) {
    case Type::u8: return f(std::uint8_t());
    case Type::u16: return f(std::uint16_t());
    default: return f(std::uint32_t());
    }
}

template <class Numbers>
nb::object new_integers(const Numbers& numbers) {
    nb::object result = nb::module_::import_("numpy").attr("empty")(numbers.size(), "int64");
    const Buffer out(result.ptr(), "result", {Type::i64}, 1, true);
    std::copy(numbers.begin(), numbers.end(), out.data<std::int64_t>());
    return result;
}

// Parameters of some grids and room for the entries of n rows.
class WeighedGrids {
  public:
    WeighedGrids(nb::handle inverse_widths, nb::handle shifts, nb::handle out, std::size_t n,
                 std::size_t d)
        : inverse_widths_(inverse_widths.ptr(), "inverse_widths", {Type::f64}, 2),
          shifts_(shifts.ptr(), "shifts", {Type::f64}, 2),
          out_(out.ptr(), "out", {Type::f32}, 2, true) {
        const std::size_t count = inverse_widths_.extent(0);
        inverse_widths_.expect_shape({count, d});
        shifts_.expect_shape({count, d});
        out_.expect_shape({count, n});
        grids = {inverse_widths_.data<const double>(), shifts_.data<const double>(), nullptr, count,
                 d};
        entries = out_.data<float>();
    }
    Grids grids;
    float* entries;

  private:
    Buffer inverse_widths_, shifts_, out_;
};

Window checked_window(double taper) {
    if (!(taper > 0.0 && taper <= 1.0))
        throw std::invalid_argument("taper must be above 0 and at most 1; got " +
                                    std::to_string(taper) + ".");
    return make_window(taper);
}

void weigh_dense(nb::handle X, nb::handle inverse_widths, nb::handle shifts, double taper,
                 double scale, nb::handle out, int n_threads) {
    const Buffer numbers(X.ptr(), "X", {Type::f32, Type::f64}, 2);
    const std::size_t n = numbers.extent(0), d = numbers.extent(1);
    const WeighedGrids grids(inverse_widths, shifts, out, n, d);
    const Window window = checked_window(taper);
    with_float(numbers.type(), [&](auto zero) {
        using T = decltype(zero);
        nb::gil_scoped_release released;
        weigh(DensePoints<T>{numbers.data<const T>(), n, d}, grids.grids, window, scale,
              grids.entries, n_threads);
    });
}

template <class T, class Index>
SparsePoints<T, Index> checked_rows(const Buffer& values, const Buffer& indices,
                                    const Buffer& indptr, std::size_t d) {
    const SparsePoints<T, Index> rows{values.data<const T>(), indices.data<const Index>(),
                                      indptr.data<const Index>(), indptr.extent(0) - 1, d};
    const std::size_t stored = values.extent(0);
    bool rising = rows.row_starts[0] >= 0, inside = true;
    for (std::size_t i = 0; i < rows.n; ++i)
        rising = rising && rows.row_starts[i] <= rows.row_starts[i + 1];
    if (!rising || static_cast<std::size_t>(rows.row_starts[rows.n]) > stored)
        indptr.fail("must rise from 0 to the number of stored values", "another order");
    for (std::size_t e = 0; e < stored; ++e)
        inside &= static_cast<std::uint64_t>(rows.inputs[e]) < d;
    if (!inside) indices.fail("must be below the number of columns", "a larger or negative one");
    return rows;
}

void weigh_sparse(nb::handle values_, nb::handle indices_, nb::handle indptr_, std::size_t d,
                  nb::handle inverse_widths, nb::handle shifts, double taper, double scale,
                  nb::handle out, int n_threads) {
    const Buffer values(values_.ptr(), "data", {Type::f32, Type::f64}, 1);
    const Buffer indices(indices_.ptr(), "indices", {Type::i32, Type::i64}, 1);
    const Buffer indptr(indptr_.ptr(), "indptr", {indices.type()}, 1);
    indices.expect_shape({values.extent(0)});
    if (indptr.extent(0) == 0) indptr.fail("must have at least one entry", "none");
    const WeighedGrids grids(inverse_widths, shifts, out, indptr.extent(0) - 1, d);
    const Window window = checked_window(taper);
    const auto run = [&](auto zero, auto index) {
        const auto rows = checked_rows<decltype(zero), decltype(index)>(values, indices, indptr, d);
        nb::gil_scoped_release released;
        weigh(rows, grids.grids, window, scale, grids.entries, n_threads);
    };
    with_float(values.type(), [&](auto zero) {
        indices.type() == Type::i32 ? run(zero, std::int32_t()) : run(zero, std::int64_t());
    });
}

// ---- products -----------------------------------------------------------------------------------

void expect_rising(const Buffer& offsets, std::size_t n_grids) {
    offsets.expect_shape({n_grids + 1});
    const auto* starts = offsets.data<const std::int64_t>();
    for (std::size_t g = 0; g < n_grids; ++g)
        if (starts[0] != 0 || starts[g] > starts[g + 1])
            offsets.fail("must rise from 0 to the number of columns", "another order");
}

enum class Product { matvec, rmatvec, gram };

template <Product product>
void weighted_product(nb::handle codes_, nb::handle values_, nb::handle offsets_,
                      nb::handle operand_, nb::handle out_, int power, int n_threads) {
    const Buffer codes(codes_.ptr(), "codes", {Type::u8, Type::u16, Type::u32}, 2);
    const Buffer values(values_.ptr(), "values", {Type::f32}, 2);
    const Buffer offsets(offsets_.ptr(), "offsets", {Type::i64}, 1);
    const Buffer operand(operand_.ptr(), product == Product::matvec ? "w" : "v",
                         {Type::f32, Type::f64}, 0);
    const Buffer out(out_.ptr(), "out", {operand.type()}, operand.ndim(), true);
    const std::size_t n_grids = codes.extent(0), n = codes.extent(1), k = operand.width();
    values.expect_shape({n_grids, n});
    expect_rising(offsets, n_grids);
    if (power < 0 || power > 2)
        throw std::invalid_argument("power must be 0, 1 or 2; got " + std::to_string(power) + ".");
    const auto* starts = offsets.data<const std::int64_t>();
    const auto n_columns = static_cast<std::size_t>(starts[n_grids]);
    const auto expect = [&](const Buffer& buffer, std::size_t length) {
        if (buffer.ndim() == 1)
            buffer.expect_shape({length});
        else
            buffer.expect_shape({length, k});
    };
    expect(operand, product == Product::matvec ? n_columns : n);
    expect(out, product == Product::rmatvec ? n_columns : n);
    with_code(codes.type(), [&](auto code) {
        using Code = decltype(code);
        const WeightedMatrix<Code> Z{codes.data<const Code>(), values.data<const float>(), starts,
                                     n_grids, n};
        with_float(operand.type(), [&](auto zero) {
            using T = decltype(zero);
            const T* from = operand.data<const T>();
            T* to = out.data<T>();
            nb::gil_scoped_release released;
            if constexpr (product == Product::matvec)
                weighted_matvec(Z, from, k, to, n_threads);
            else if constexpr (product == Product::rmatvec)
                weighted_rmatvec(Z, from, k, to, power, n_threads);
            else
                weighted_gram_matvec(Z, from, k, to, n_threads);
        });
    });
}

nb::tuple sizes_of_bins(nb::handle codes_, nb::handle offsets_, int n_threads) {
    const Buffer codes(codes_.ptr(), "codes", {Type::u8, Type::u16, Type::u32}, 2);
    const Buffer offsets(offsets_.ptr(), "offsets", {Type::i64}, 1);
    expect_rising(offsets, codes.extent(0));
    const BinSizes sizes = with_code(codes.type(), [&](auto code) {
        using Code = decltype(code);
        nb::gil_scoped_release released;
        return bin_sizes(codes.data<const Code>(), offsets.data<const std::int64_t>(),
                         codes.extent(0), codes.extent(1), n_threads);
    });
    std::vector<std::int64_t> counts, n_bins;
    for (const auto& [size, bins] : sizes.frequency) {
        counts.push_back(size);
        n_bins.push_back(bins);
    }
    return nb::make_tuple(new_integers(sizes.largest), new_integers(counts), new_integers(n_bins));
}

}  // namespace

void add_weighted(nb::module_& m) {
    m.def("weigh", &weigh_dense);
    m.def("weigh", &weigh_sparse);
    m.def(
        "weighted_matvec",
        [](nb::handle codes, nb::handle values, nb::handle offsets, nb::handle w, nb::handle out,
           int n_threads) {
            weighted_product<Product::matvec>(codes, values, offsets, w, out, 1, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "w"_a, "out"_a, "n_threads"_a);
    m.def(
        "weighted_rmatvec",
        [](nb::handle codes, nb::handle values, nb::handle offsets, nb::handle v, nb::handle out,
           int power, int n_threads) {
            weighted_product<Product::rmatvec>(codes, values, offsets, v, out, power, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "v"_a, "out"_a, "power"_a, "n_threads"_a);
    m.def(
        "weighted_gram_matvec",
        [](nb::handle codes, nb::handle values, nb::handle offsets, nb::handle v, nb::handle out,
           int n_threads) {
            weighted_product<Product::gram>(codes, values, offsets, v, out, 1, n_threads);
        },
        "codes"_a, "values"_a, "offsets"_a, "v"_a, "out"_a, "n_threads"_a);
    m.def("bin_sizes", &sizes_of_bins, "codes"_a, "offsets"_a, "n_threads"_a);
}
