// Checks of arguments that several functions of the Python module share: rows of data, parameters
// of grids, operands of products. For the bindings alone.
#pragma once

#include "arrays.hpp"
#include "points.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>
#include <variant>

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
    out.expect_shape({integers.size()});
    std::copy(integers.begin(), integers.end(), out.data<std::int64_t>());
    return result;
}

using AnyPoints =
    std::variant<DensePoints<float>, DensePoints<double>, SparsePoints<float, std::int32_t>,
                 SparsePoints<float, std::int64_t>, SparsePoints<double, std::int32_t>,
                 SparsePoints<double, std::int64_t>>;

// The data: one array, or the three of a CSR matrix and its number of columns.
struct Data {
    Data(Arrays& arrays, nb::handle X) {
        const Buffer& numbers = arrays.read(X, "X", {Type::f32, Type::f64}, 2);
        with_float(numbers.type(), [&](auto zero) {
            using T = decltype(zero);
            points = DensePoints<T>{numbers.data<const T>(), numbers.extent(0), numbers.extent(1)};
        });
    }
    Data(Arrays& arrays, nb::handle values, nb::handle indices_, nb::handle indptr_,
         std::size_t d) {
        const Buffer& numbers = arrays.read(values, "data", {Type::f32, Type::f64}, 1);
        const Buffer& indices = arrays.read(indices_, "indices", {Type::i32, Type::i64}, 1);
        const Buffer& indptr = arrays.read(indptr_, "indptr", {indices.type()}, 1);
        indices.expect_shape({numbers.extent(0)});
        with_float(numbers.type(), [&](auto zero) {
            using T = decltype(zero);
            if (indices.type() == Type::i32)
                set_sparse<T, std::int32_t>(numbers, indices, indptr, d);
            else
                set_sparse<T, std::int64_t>(numbers, indices, indptr, d);
        });
    }
    AnyPoints points;

  private:
    template <class T, class Index>
    void set_sparse(const Buffer& numbers, const Buffer& indices, const Buffer& indptr,
                    std::size_t d) {
        end_of<Index>(indptr, numbers.extent(0), "stored values");
        expect_below<Index>(indices, d, "the number of columns");
        points = SparsePoints<T, Index>{numbers.data<const T>(), indices.data<const Index>(),
                                        indptr.data<const Index>(), indptr.extent(0) - 1, d};
    }
};

// Parameters of some grids, and room for what each row of the data gets in each grid: a code, or a
// weight, which takes no multipliers.
struct GridArguments {
    GridArguments(Arrays& arrays, const Data& data, nb::handle inverse_widths, nb::handle shifts,
                  nb::handle multipliers_, nb::handle codes)
        : GridArguments(arrays, data, inverse_widths, shifts, codes, "codes",
                        {Type::u8, Type::u16, Type::u32}) {
        const Buffer& multipliers = arrays.read(multipliers_, "multipliers", {Type::u64}, 2);
        multipliers.expect_shape({grids.count, grids.d});
        grids.multipliers = multipliers.data<const std::uint64_t>();
    }
    GridArguments(Arrays& arrays, const Data& data, nb::handle inverse_widths, nb::handle shifts,
                  nb::handle weights)
        : GridArguments(arrays, data, inverse_widths, shifts, weights, "out", {Type::f32}) {}
    const Buffer& out;
    Grids grids;

  private:
    GridArguments(Arrays& arrays, const Data& data, nb::handle inverse_widths_, nb::handle shifts_,
                  nb::handle out_, const char* name, std::initializer_list<Type> accepted)
        : out(arrays.write(out_, name, accepted, 2)) {
        const Buffer& inverse_widths =
            arrays.read(inverse_widths_, "inverse_widths", {Type::f64}, 2);
        const Buffer& shifts = arrays.read(shifts_, "shifts", {Type::f64}, 2);
        const auto [n, d] = std::visit(
            [](const auto& points) { return std::pair(points.n, points.d); }, data.points);
        const std::size_t count = inverse_widths.extent(0);
        inverse_widths.expect_shape({count, d});
        shifts.expect_shape({count, d});
        out.expect_shape({count, n});
        grids = {inverse_widths.data<const double>(), shifts.data<const double>(), nullptr, count,
                 d};
    }
};

// The first column of each grid, and after the last one the number of columns.
inline const Buffer& read_offsets(Arrays& arrays, nb::handle offsets_, std::size_t n_grids) {
    const Buffer& offsets = arrays.read(offsets_, "offsets", {Type::i64}, 1);
    offsets.expect_shape({n_grids + 1});
    end_of<std::int64_t>(offsets, std::numeric_limits<std::int64_t>::max(), "columns");
    const auto* starts = offsets.data<const std::int64_t>();
    for (std::size_t g = 0; g < n_grids; ++g)  // sizes of tables would overflow
        if ((starts[g + 1] - starts[g]) >> 32)
            offsets.fail("must give a grid less than 2^32 columns",
                         std::to_string(starts[g + 1] - starts[g]));
    return offsets;
}

// Codes of rows in grids.
struct BinArguments {
    BinArguments(Arrays& arrays, nb::handle codes_, nb::handle offsets)
        : codes(arrays.read(codes_, "codes", {Type::u8, Type::u16, Type::u32}, 2)),
          n_grids(codes.extent(0)), n(codes.extent(1)),
          starts(read_offsets(arrays, offsets, n_grids).data<const std::int64_t>()),
          n_columns(static_cast<std::size_t>(starts[n_grids])) {}
    const Buffer& codes;
    std::size_t n_grids, n;
    const std::int64_t* starts;  // n_grids + 1
    std::size_t n_columns;
};

enum class Product { matvec, rmatvec, gram };

// A binned matrix, what it is multiplied with (a vector or k of them) and room for the product.
struct ProductArguments {
    ProductArguments(Product product, nb::handle codes, nb::handle offsets, nb::handle operand_,
                     nb::handle out_)
        : bins(arrays, codes, offsets),
          operand(arrays.read(operand_, product == Product::matvec ? "w" : "v",
                              {Type::f32, Type::f64}, 0)),
          out(arrays.write(out_, "out", {operand.type()}, operand.ndim())), k(operand.width()) {
        expect_length(operand, product == Product::matvec ? bins.n_columns : bins.n);
        expect_length(out, product == Product::rmatvec ? bins.n_columns : bins.n);
    }
    // Calls f(codes, operand, out), pointers to the types that they have, without the interpreter.
    template <class F>
    void run(F f) const {
        with_code(bins.codes.type(), [&](auto code) {
            with_float(operand.type(), [&](auto zero) {
                using Code = decltype(code);
                using T = decltype(zero);
                const Released released(arrays);
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
    Arrays arrays;
    BinArguments bins;
    const Buffer &operand, &out;
    std::size_t k;
};

}  // namespace mercer
