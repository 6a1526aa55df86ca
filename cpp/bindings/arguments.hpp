// Checks of arguments that several functions of the Python module share: rows of data, parameters
// of grids, operands of products. For the bindings alone; defined in arguments.cpp.
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
    Data(Arrays& arrays, AnyRows X);
    AnyPoints points;
};

// Parameters of grids of d inputs, without multipliers.
Grids read_grids(Arrays& arrays, std::size_t d, Doubles inverse_widths, Doubles shifts);
void read_multipliers(Arrays& arrays, Array<Type::u64> multipliers, Grids& grids);

// Parameters of some grids, and room for what each row of the data gets in each grid: a code, or a
// weight, which takes no multipliers.
struct GridArguments {
    GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths, Doubles shifts,
                  Array<Type::u64> multipliers, Codes codes);
    GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths, Doubles shifts,
                  Array<Type::f32> weights);
    const Buffer& out;
    Grids grids;

  private:
    GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths, Doubles shifts,
                  const Buffer& out);
};

// The first column of each grid, and after the last one the number of columns.
const std::int64_t* read_offsets(Arrays& arrays, Integers offsets, std::size_t n_grids);

// Codes of rows in grids.
struct BinArguments {
    BinArguments(Arrays& arrays, Codes codes, Integers offsets);
    const Buffer& codes;
    std::size_t n_grids, n;
    const std::int64_t* starts;  // n_grids + 1
    std::size_t n_columns;
};

enum class Product { matvec, rmatvec, gram };

// A binned matrix, what it is multiplied with (a vector or k of them) and room for the product.
struct ProductArguments {
    ProductArguments(Product product, Codes codes, Integers offsets, Floats operand, Floats out);
    // Calls f(codes, bytes of a code, operand, out), the latter two pointers to the type that they
    // have, without the interpreter.
    template <class F>
    void run(F f) const {
        const Type type = bins.codes.type();
        const std::size_t code_bytes = type == Type::u8 ? 1 : type == Type::u16 ? 2 : 4;
        with_float(operand.type(), [&](auto zero) {
            using T = decltype(zero);
            const Released released(arrays);
            f(bins.codes.data<const void>(), code_bytes, operand.data<const T>(), out.data<T>());
        });
    }
    void expect_length(const Buffer& buffer, std::size_t length) const;
    Arrays arrays;
    BinArguments bins;
    const Buffer &operand, &out;
    std::size_t k;
};

}  // namespace mercer
