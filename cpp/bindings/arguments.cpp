// The checks that arrays.hpp and arguments.hpp declare.
#include "arguments.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace mercer {

// ---- arrays -------------------------------------------------------------------------------------

const Buffer& Arrays::read(nb::handle object, const char* name,
                           std::initializer_list<Type> accepted, int ndim) {
    return held_.emplace_back(object.ptr(), name, accepted, ndim, false);
}
const Buffer& Arrays::write(nb::handle object, const char* name,
                            std::initializer_list<Type> accepted, int ndim) {
    return held_.emplace_back(object.ptr(), name, accepted, ndim, true);
}
void Arrays::expect_apart() const {
    for (auto one = held_.begin(); one != held_.end(); ++one)
        for (auto other = held_.begin(); other != one; ++other) one->expect_apart_from(*other);
}

template <class Index>
std::size_t end_of(const Buffer& starts, std::size_t most, const char* of_what) {
    const auto* at = starts.data<const Index>();
    const std::size_t count = starts.extent(0);
    if (count == 0) starts.fail("must have at least one entry", "none");
    bool rising = at[0] == 0;
    for (std::size_t k = 0; k + 1 < count; ++k) rising &= at[k] <= at[k + 1];
    const auto end = static_cast<std::size_t>(at[count - 1]);
    if (!rising || end > most)
        starts.fail(std::string("must rise from 0 to the number of ") + of_what,
                    rising ? std::to_string(end) : "another order");
    return end;
}

template std::size_t end_of<std::int64_t>(const Buffer&, std::size_t, const char*);

template <class Index>
void expect_below(const Buffer& indices, std::size_t bound, const char* bound_name) {
    const auto* first = indices.data<const Index>();
    const auto* last = first + indices.extent(0) * indices.width();
    const auto beyond = [bound](Index i) { return static_cast<std::uint64_t>(i) >= bound; };
    bool inside = true;
    for (const auto* i = first; i < last; ++i) inside &= !beyond(*i);
    if (!inside)
        indices.fail(std::string("must be below ") + bound_name,
                     std::to_string(*std::find_if(first, last, beyond)));
}

template void expect_below<std::uint32_t>(const Buffer&, std::size_t, const char*);
template void expect_below<std::int64_t>(const Buffer&, std::size_t, const char*);

template <class Index>
void expect_lists(const Buffer& starts, const Buffer& indices, std::size_t bound,
                  const char* part) {
    const std::size_t count = indices.extent(0);
    constexpr std::size_t anywhere = std::numeric_limits<std::size_t>::max();
    if (const std::size_t end = end_of<std::int64_t>(starts, anywhere, "entries"); end != count)
        starts.fail("must end with the number of entries", std::to_string(end));
    const auto* first = starts.data<const std::int64_t>();
    const auto* index = indices.data<const Index>();
    for (std::size_t k = 0; k + 1 < starts.extent(0); ++k)
        for (auto e = first[k]; e < first[k + 1]; ++e)
            if (static_cast<std::uint64_t>(index[e]) >= bound ||
                (e > first[k] && index[e - 1] >= index[e]))
                indices.fail(std::string("must ascend within a ") + part, std::to_string(index[e]));
}

template void expect_lists<std::int32_t>(const Buffer&, const Buffer&, std::size_t, const char*);
template void expect_lists<std::uint32_t>(const Buffer&, const Buffer&, std::size_t, const char*);

void expect_not_negative(double value, const char* name) {
    if (!(value >= 0.0))
        throw std::invalid_argument(std::string(name) + " must be at least 0; got " +
                                    std::to_string(value) + ".");
}

Threads::Threads(int count) : count_(std::min(count, most)) {
    if (count < 1)
        throw std::invalid_argument("n_threads must be at least 1; got " + std::to_string(count) +
                                    ".");
}

// ---- rows and grids -----------------------------------------------------------------------------

namespace {

template <class T, class Index>
AnyPoints csr(const Buffer& numbers, const Buffer& indices, const Buffer& indptr, std::size_t d) {
    end_of<Index>(indptr, numbers.extent(0), "stored values");
    expect_below<Index>(indices, d, "the number of columns");
    return SparsePoints<T, Index>{numbers.data<const T>(), indices.data<const Index>(),
                                  indptr.data<const Index>(), indptr.extent(0) - 1, d};
}

AnyPoints sparse_points(Arrays& arrays, AnyRows X) {
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
    return with_float(numbers.type(), [&](auto zero) {
        using T = decltype(zero);
        return indices.type() == Type::i32 ? csr<T, std::int32_t>(numbers, indices, indptr, d)
                                           : csr<T, std::int64_t>(numbers, indices, indptr, d);
    });
}

AnyPoints dense_points(const Buffer& numbers) {
    return with_float(numbers.type(), [&](auto zero) -> AnyPoints {
        using T = decltype(zero);
        return DensePoints<T>{numbers.data<const T>(), numbers.extent(0), numbers.extent(1)};
    });
}

}  // namespace

Data::Data(Arrays& arrays, AnyRows X)
    : points(PyTuple_Check(X.ptr()) ? sparse_points(arrays, X)
                                    : dense_points(arrays.read(Floats{X}, "X", 2))) {}

Grids read_grids(Arrays& arrays, std::size_t d, Doubles inverse_widths_, Doubles shifts_) {
    const Buffer& inverse_widths = arrays.read(inverse_widths_, "inverse_widths", 2);
    const Buffer& shifts = arrays.read(shifts_, "shifts", 2);
    const std::size_t count = inverse_widths.extent(0);
    inverse_widths.expect_shape({count, d});
    shifts.expect_shape({count, d});
    return {inverse_widths.data<const double>(), shifts.data<const double>(), nullptr, count, d};
}

void read_multipliers(Arrays& arrays, Array<Type::u64> multipliers_, Grids& grids) {
    const Buffer& multipliers = arrays.read(multipliers_, "multipliers", 2);
    multipliers.expect_shape({grids.count, grids.d});
    grids.multipliers = multipliers.data<const std::uint64_t>();
}

GridArguments::GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths,
                             Doubles shifts, Array<Type::u64> multipliers, Codes codes)
    : GridArguments(arrays, data, inverse_widths, shifts, arrays.write(codes, "codes", 2)) {
    read_multipliers(arrays, multipliers, grids);
}
GridArguments::GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths,
                             Doubles shifts, Array<Type::f32> weights)
    : GridArguments(arrays, data, inverse_widths, shifts, arrays.write(weights, "out", 2)) {}
GridArguments::GridArguments(Arrays& arrays, const Data& data, Doubles inverse_widths,
                             Doubles shifts, const Buffer& out_)
    : out(out_) {
    const auto [n, d] =
        std::visit([](const auto& points) { return std::pair(points.n, points.d); }, data.points);
    grids = read_grids(arrays, d, inverse_widths, shifts);
    out.expect_shape({grids.count, n});
}

const std::int64_t* read_offsets(Arrays& arrays, Integers offsets_, std::size_t n_grids) {
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

// ---- binned matrices ----------------------------------------------------------------------------

BinArguments::BinArguments(Arrays& arrays, Codes codes_, Integers offsets)
    : codes(arrays.read(codes_, "codes", 2)), n_grids(codes.extent(0)), n(codes.extent(1)),
      starts(read_offsets(arrays, offsets, n_grids)),
      n_columns(static_cast<std::size_t>(starts[n_grids])) {}

ProductArguments::ProductArguments(Product product, Codes codes, Integers offsets, Floats operand_,
                                   Floats out_)
    : bins(arrays, codes, offsets),
      operand(arrays.read(operand_, product == Product::matvec ? "w" : "v", 0)),
      out(arrays.write(out_, "out", {operand.type()}, operand.ndim())), k(operand.width()) {
    expect_length(operand, product == Product::matvec ? bins.n_columns : bins.n);
    expect_length(out, product == Product::rmatvec ? bins.n_columns : bins.n);
}

void ProductArguments::expect_length(const Buffer& buffer, std::size_t length) const {
    if (buffer.ndim() == 1)
        buffer.expect_shape({length});
    else
        buffer.expect_shape({length, k});
}

}  // namespace mercer
