// Checks of arguments that several functions of the Python module share: rows of data, parameters
// of grids, operands of products. For the two files of bindings alone.
#pragma once

#include "buffer.hpp"
#include "points.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>

namespace nb = nanobind;

namespace mercer {

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

inline nb::object new_array(nb::handle shape, const char* dtype) {
    return nb::module_::import_("numpy").attr("empty")(shape, dtype);
}

template <class Integers>
nb::object new_integers(const Integers& integers) {
    nb::object result = new_array(nb::int_(integers.size()), "int64");
    const Buffer out(result.ptr(), "result", {Type::i64}, 1, true);
    std::copy(integers.begin(), integers.end(), out.data<std::int64_t>());
    return result;
}

using AnyPoints =
    std::variant<DensePoints<float>, DensePoints<double>, SparsePoints<float, std::int32_t>,
                 SparsePoints<float, std::int64_t>, SparsePoints<double, std::int32_t>,
                 SparsePoints<double, std::int64_t>>;

// The data: one array, or the three of a CSR matrix and its number of columns.
class Data {
  public:
    explicit Data(nb::handle X) {
        numbers_.emplace(X.ptr(), "X", std::initializer_list{Type::f32, Type::f64}, 2);
        with_float(numbers_->type(), [&](auto zero) {
            using T = decltype(zero);
            points =
                DensePoints<T>{numbers_->data<const T>(), numbers_->extent(0), numbers_->extent(1)};
        });
    }
    Data(nb::handle values, nb::handle indices, nb::handle indptr, std::size_t d) {
        numbers_.emplace(values.ptr(), "data", std::initializer_list{Type::f32, Type::f64}, 1);
        indices_.emplace(indices.ptr(), "indices", std::initializer_list{Type::i32, Type::i64}, 1);
        indptr_.emplace(indptr.ptr(), "indptr", std::initializer_list{indices_->type()}, 1);
        indices_->expect_shape({numbers_->extent(0)});
        if (indptr_->extent(0) == 0) indptr_->fail("must have at least one entry", "none");
        with_float(numbers_->type(), [&](auto zero) {
            if (indices_->type() == Type::i32)
                set_sparse<decltype(zero), std::int32_t>(d);
            else
                set_sparse<decltype(zero), std::int64_t>(d);
        });
    }
    AnyPoints points;

  private:
    template <class T, class Index>
    void set_sparse(std::size_t d) {
        const SparsePoints<T, Index> rows{numbers_->data<const T>(), indices_->data<const Index>(),
                                          indptr_->data<const Index>(), indptr_->extent(0) - 1, d};
        const std::size_t n_stored = numbers_->extent(0);
        bool valid = rows.row_starts[0] >= 0;
        for (std::size_t i = 0; i < rows.n; ++i)
            valid = valid && rows.row_starts[i] <= rows.row_starts[i + 1];
        if (!valid || static_cast<std::size_t>(rows.row_starts[rows.n]) > n_stored)
            indptr_->fail("must rise from 0 to the number of stored values", "another order");
        bool inside = true;
        for (std::size_t e = 0; e < n_stored; ++e)
            inside &= static_cast<std::uint64_t>(rows.inputs[e]) < d;
        if (!inside)
            indices_->fail("must be below the number of columns", "a larger or negative one");
        points = rows;
    }
    std::optional<Buffer> numbers_, indices_, indptr_;
};

// Parameters of some grids, and room for what each row of the data gets in each grid: a code, or a
// weight, which takes no multipliers.
class GridArguments {
  public:
    GridArguments(const Data& data, nb::handle inverse_widths, nb::handle shifts,
                  nb::handle multipliers, nb::handle codes)
        : GridArguments(data, inverse_widths, shifts, codes, "codes",
                        {Type::u8, Type::u16, Type::u32}) {
        multipliers_.emplace(multipliers.ptr(), "multipliers", std::initializer_list{Type::u64}, 2);
        multipliers_->expect_shape({grids.count, grids.d});
        grids.multipliers = multipliers_->data<const std::uint64_t>();
    }
    GridArguments(const Data& data, nb::handle inverse_widths, nb::handle shifts,
                  nb::handle weights)
        : GridArguments(data, inverse_widths, shifts, weights, "out", {Type::f32}) {}
    Buffer out;
    Grids grids;

  private:
    GridArguments(const Data& data, nb::handle inverse_widths, nb::handle shifts, nb::handle out_,
                  const char* name, std::initializer_list<Type> accepted)
        : out(out_.ptr(), name, accepted, 2, true),
          inverse_widths_(inverse_widths.ptr(), "inverse_widths", {Type::f64}, 2),
          shifts_(shifts.ptr(), "shifts", {Type::f64}, 2) {
        const auto [n, d] = std::visit(
            [](const auto& points) { return std::pair(points.n, points.d); }, data.points);
        const std::size_t count = inverse_widths_.extent(0);
        inverse_widths_.expect_shape({count, d});
        shifts_.expect_shape({count, d});
        out.expect_shape({count, n});
        grids = {inverse_widths_.data<const double>(), shifts_.data<const double>(), nullptr, count,
                 d};
    }
    Buffer inverse_widths_, shifts_;
    std::optional<Buffer> multipliers_;
};

// Codes of rows in grids, and the first column of each grid.
class BinArguments {
  public:
    BinArguments(nb::handle codes_, nb::handle offsets)
        : codes(codes_.ptr(), "codes", {Type::u8, Type::u16, Type::u32}, 2),
          n_grids(codes.extent(0)), n(codes.extent(1)),
          offsets_(offsets.ptr(), "offsets", {Type::i64}, 1) {
        offsets_.expect_shape({n_grids + 1});
        starts = offsets_.data<const std::int64_t>();
        for (std::size_t g = 0; g < n_grids; ++g)
            if (starts[0] != 0 || starts[g] > starts[g + 1])
                offsets_.fail("must rise from 0 to the number of columns", "another order");
    }
    Buffer codes;
    std::size_t n_grids, n;
    const std::int64_t* starts;  // n_grids + 1

  private:
    Buffer offsets_;
};

enum class Product { matvec, rmatvec, gram };

// A binned matrix, what it is multiplied with (a vector or k of them) and room for the product.
struct ProductArguments {
    ProductArguments(Product product, nb::handle codes, nb::handle offsets, nb::handle operand_,
                     nb::handle out_)
        : bins(codes, offsets), operand(operand_.ptr(), product == Product::matvec ? "w" : "v",
                                        {Type::f32, Type::f64}, 0),
          out(out_.ptr(), "out", {operand.type()}, operand.ndim(), true), k(operand.width()) {
        const auto n_columns = static_cast<std::size_t>(bins.starts[bins.n_grids]);
        expect_length(operand, product == Product::matvec ? n_columns : bins.n);
        expect_length(out, product == Product::rmatvec ? n_columns : bins.n);
    }
    // Calls f(codes, operand, out), pointers to the types that they have, without the interpreter.
    template <class F>
    void run(F f) const {
        with_code(bins.codes.type(), [&](auto code) {
            with_float(operand.type(), [&](auto zero) {
                using Code = decltype(code);
                using T = decltype(zero);
                nb::gil_scoped_release released;
                f(bins.codes.data<const Code>(), operand.data<const T>(), out.data<T>());
            });
        });
    }
    void expect_length(const Buffer& buffer, std::size_t length) const {
        if (buffer.ndim() == 1)
            buffer.expect_shape({length});
        else
            buffer.expect_shape({length, k});
    }
    BinArguments bins;
    Buffer operand, out;
    std::size_t k;
};

}  // namespace mercer
