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

// An array of that shape, and where its numbers are.
template <Type type>
std::pair<Array<type>, typename NumberOf<type>::type*>
new_array(std::initializer_list<std::size_t> shape) {
    const nb::str dtype(Buffer::label(type).data());
    nb::list lengths;
    for (std::size_t length : shape) lengths.append(length);
    Array<type> array =
        nb::object(nb::module_::import_("numpy").attr("empty")(nb::tuple(lengths), dtype));
    const Buffer buffer(array.ptr(), "result", {type}, static_cast<int>(shape.size()), true);
    buffer.expect_shape(shape);
    return {array, buffer.data<typename NumberOf<type>::type>()};
}

template <class Integers>
Array<Type::i64> new_integers(const Integers& integers) {
    auto [result, numbers] = new_array<Type::i64>({integers.size()});
    std::copy(integers.begin(), integers.end(), numbers);
    return result;
}

using AnyPoints =
    std::variant<DensePoints<float>, DensePoints<double>, SparsePoints<float, std::int32_t>,
                 SparsePoints<float, std::int64_t>, SparsePoints<double, std::int32_t>,
                 SparsePoints<double, std::int64_t>>;

// An argument that is the data: one array, or a tuple of the three of a CSR matrix and its number
// of columns.
struct AnyRows : nb::object {
    using Indices = Array<Type::i32, Type::i64>;
    static constexpr auto Name = Floats::Name + nb::detail::const_name(" | tuple[") +
                                 nb::detail::concat(Floats::Name, Indices::Name, Indices::Name) +
                                 nb::detail::const_name(", int]");
    static bool check_(nb::handle) { return true; }
    using nb::object::object;
};

struct Data {
    Data(Arrays& arrays, AnyRows X) {
        if (PyTuple_Check(X.ptr()))
            set_sparse(arrays, X);
        else
            set_dense(arrays.read(Floats{X}, "X", 2));
    }
    AnyPoints points;

  private:
    void set_dense(const Buffer& numbers) {
        with_float(numbers.type(), [&](auto zero) {
            using T = decltype(zero);
            points = DensePoints<T>{numbers.data<const T>(), numbers.extent(0), numbers.extent(1)};
        });
    }
    void set_sparse(Arrays& arrays, AnyRows X) {
        const Py_ssize_t n_parts = PyTuple_Size(X.ptr());
        const auto part = [&](Py_ssize_t i) { return nb::handle(PyTuple_GetItem(X.ptr(), i)); };
        std::size_t d = 0;
        if (n_parts != 4)
            throw WrongType("X must be an array or (data, indices, indptr, d); got a tuple of " +
                            std::to_string(n_parts) + ".");
        if (!nb::try_cast<std::size_t>(part(3), d))
            throw WrongType("d must be an integer of at least 0, below 2^64; got another object.");
        const Buffer& numbers = arrays.read(Floats{part(0)}, "data", 1);
        const Buffer& indices = arrays.read(AnyRows::Indices{part(1)}, "indices", 1);
        const Buffer& indptr = arrays.read(part(2), "indptr", {indices.type()}, 1);
        indices.expect_shape({numbers.extent(0)});
        with_float(numbers.type(), [&](auto zero) {
            using T = decltype(zero);
            if (indices.type() == Type::i32)
                set_csr<T, std::int32_t>(numbers, indices, indptr, d);
            else
                set_csr<T, std::int64_t>(numbers, indices, indptr, d);
        });
    }
    template <class T, class Index>
    void set_csr(const Buffer& numbers, const Buffer& indices, const Buffer& indptr,
                 std::size_t d) {
        end_of<Index>(indptr, numbers.extent(0), "stored values");
        expect_below<Index>(indices, d, "the number of columns");
        points = SparsePoints<T, Index>{numbers.data<const T>(), indices.data<const Index>(),
                                        indptr.data<const Index>(), indptr.extent(0) - 1, d};
    }
};

// Parameters of grids of d inputs, without multipliers.
inline Grids read_grids(Arrays& arrays, std::size_t d, Doubles inverse_widths_, Doubles shifts_) {
    const Buffer& inverse_widths = arrays.read(inverse_widths_, "inverse_widths", 2);
    const Buffer& shifts = arrays.read(shifts_, "shifts", 2);
    const std::size_t count = inverse_widths.extent(0);
    inverse_widths.expect_shape({count, d});
    shifts.expect_shape({count, d});
    return {inverse_widths.data<const double>(), shifts.data<const double>(), nullptr, count, d};
}
inline void read_multipliers(Arrays& arrays, Array<Type::u64> multipliers_, Grids& grids) {
    const Buffer& multipliers = arrays.read(multipliers_, "multipliers", 2);
    multipliers.expect_shape({grids.count, grids.d});
    grids.multipliers = multipliers.data<const std::uint64_t>();
}

// Parameters of some grids, and room for what each row of the data gets in each grid: a code, or a
// weight, which takes no multipliers.
struct GridArguments {
    GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths, Doubles shifts,
                  Array<Type::u64> multipliers, Codes codes)
        : GridArguments(arrays, data, inverse_widths, shifts, arrays.write(codes, "codes", 2)) {
        read_multipliers(arrays, multipliers, grids);
    }
    GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths, Doubles shifts,
                  Array<Type::f32> weights)
        : GridArguments(arrays, data, inverse_widths, shifts, arrays.write(weights, "out", 2)) {}
    const Buffer& out;
    Grids grids;

  private:
    GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths, Doubles shifts,
                  const Buffer& out_)
        : out(out_) {
        const auto [n, d] = std::visit(
            [](const auto& points) { return std::pair(points.n, points.d); }, data.points);
        grids = read_grids(arrays, d, inverse_widths, shifts);
        out.expect_shape({grids.count, n});
    }
};

// The first column of each grid, and after the last one the number of columns.
inline const std::int64_t* read_offsets(Arrays& arrays, Integers offsets_, std::size_t n_grids) {
    const Buffer& offsets = arrays.read(offsets_, "offsets", 1);
    offsets.expect_shape({n_grids + 1});
    end_of<std::int64_t>(offsets, std::numeric_limits<std::int64_t>::max(), "columns");
    const auto* starts = offsets.data<const std::int64_t>();
    for (std::size_t g = 0; g < n_grids; ++g)  // sizes of tables would overflow
        if ((starts[g + 1] - starts[g]) >> 32)
            offsets.fail("must give a grid less than 2^32 columns",
                         std::to_string(starts[g + 1] - starts[g]));
    return starts;
}

// Codes of rows in grids.
struct BinArguments {
    BinArguments(Arrays& arrays, Codes codes_, Integers offsets)
        : codes(arrays.read(codes_, "codes", 2)), n_grids(codes.extent(0)), n(codes.extent(1)),
          starts(read_offsets(arrays, offsets, n_grids)),
          n_columns(static_cast<std::size_t>(starts[n_grids])) {}
    const Buffer& codes;
    std::size_t n_grids, n;
    const std::int64_t* starts;  // n_grids + 1
    std::size_t n_columns;
};

enum class Product { matvec, rmatvec, gram };

// A binned matrix, what it is multiplied with (a vector or k of them) and room for the product.
struct ProductArguments {
    ProductArguments(Product product, Codes codes, Integers offsets, Floats operand_, Floats out_)
        : bins(arrays, codes, offsets),
          operand(arrays.read(operand_, product == Product::matvec ? "w" : "v", 0)),
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
