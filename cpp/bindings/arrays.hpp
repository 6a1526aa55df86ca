// What every function of the Python module checks of its arguments: that an array which is written
// is no other's, that indices stay where they belong, that threads are neither none nor too many.
// For the bindings alone; defined in arguments.cpp, once for all of them.
#pragma once

#include "buffer.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace mercer {

template <Type>
struct NumberOf;
#define MERCER_NUMBER(type_, number_, name_)                                                       \
    template <>                                                                                    \
    struct NumberOf<Type::type_> {                                                                 \
        using type = number_;                                                                      \
        static constexpr auto name = nb::detail::const_name("numpy." name_);                       \
    };
MERCER_NUMBER(f32, float, "float32")
MERCER_NUMBER(f64, double, "float64")
MERCER_NUMBER(i32, std::int32_t, "int32")
MERCER_NUMBER(i64, std::int64_t, "int64")
MERCER_NUMBER(u8, std::uint8_t, "uint8")
MERCER_NUMBER(u16, std::uint16_t, "uint16")
MERCER_NUMBER(u32, std::uint32_t, "uint32")
MERCER_NUMBER(u64, std::uint64_t, "uint64")
#undef MERCER_NUMBER

// An argument that is an array of one of these types, or a new one. Signatures tell them, `Arrays`
// checks them.
template <Type first, Type... rest>
struct Array : nb::object {
    static constexpr auto Name = nb::detail::const_name("numpy.typing.NDArray[") +
                                 NumberOf<first>::name +
                                 (nb::detail::const_name("") + ... +
                                  (nb::detail::const_name(" | ") + NumberOf<rest>::name)) +
                                 nb::detail::const_name("]");
    static bool check_(nb::handle) { return true; }
    using nb::object::object;
    Array(nb::handle array) : nb::object(nb::borrow(array)) {}
};
using Floats = Array<Type::f32, Type::f64>;
using Doubles = Array<Type::f64>;
using Integers = Array<Type::i64>;
using Codes = Array<Type::u8, Type::u16, Type::u32>;

// The arrays of one call, or those that an object keeps.
class Arrays {
  public:
    template <Type... types>
    const Buffer& read(Array<types...> array, const char* name, int ndim) {
        return read(array, name, {types...}, ndim);
    }
    template <Type... types>
    const Buffer& write(Array<types...> array, const char* name, int ndim) {
        return write(array, name, {types...}, ndim);
    }
    // One axis of `length` numbers.
    template <Type type>
    const typename NumberOf<type>::type* numbers(Array<type> array, const char* name,
                                                 std::size_t length) {
        const Buffer& buffer = read(array, name, 1);
        buffer.expect_shape({length});
        return buffer.data<const typename NumberOf<type>::type>();
    }
    // The same, or null for None.
    template <Type type>
    const typename NumberOf<type>::type* optional(Array<type> array, const char* name,
                                                  std::size_t length) {
        return array.is_none() ? nullptr : numbers(array, name, length);
    }
    const Buffer& read(nb::handle object, const char* name, std::initializer_list<Type> accepted,
                       int ndim);
    const Buffer& write(nb::handle object, const char* name, std::initializer_list<Type> accepted,
                        int ndim);
    // One axis of `length` numbers of a type known to the caller, or null for None.
    template <class T>
    const T* optional(nb::handle object, const char* name, Type type, std::size_t length) {
        if (object.is_none()) return nullptr;
        const Buffer& buffer = read(object, name, {type}, 1);
        buffer.expect_shape({length});
        return buffer.data<const T>();
    }
    // None that is written shares memory with another one.
    void expect_apart() const;

  private:
    std::deque<Buffer> held_;  // which stay where they are
};

// The interpreter is free for other threads, once the arrays of the call are known to be apart: an
// index that is written after it was checked could lead anywhere.
class Released {
  public:
    explicit Released(const Arrays& arrays) { arrays.expect_apart(); }

  private:
    nb::gil_scoped_release released_;
};

// Where parts begin, and after the last one where it ends: from 0 to at most `most`, never falling.
// Returns the end.
template <class Index>
std::size_t end_of(const Buffer& starts, std::size_t most, const char* of_what);

template <class Index>
void expect_below(const Buffer& indices, std::size_t bound, const char* bound_name);

// Compressed rows or columns: `part` says which, and below what number its indices ascend.
template <class Index>
void expect_lists(const Buffer& starts, const Buffer& indices, std::size_t bound, const char* part);

void expect_not_negative(double value, const char* name);

// A number of threads. Each has memory of its own, so that there are never more than `most`.
class Threads {
  public:
    static constexpr int most = 1024;
    Threads() = default;
    explicit Threads(int count);
    operator int() const { return count_; }

  private:
    int count_ = 1;
};

}  // namespace mercer

template <>
struct nanobind::detail::type_caster<mercer::Threads> {
    NB_TYPE_CASTER(mercer::Threads, const_name("int"))
    bool from_python(handle object, std::uint8_t flags, cleanup_list* cleanup) {
        make_caster<int> count;
        if (!count.from_python(object, flags, cleanup)) return false;
        value = mercer::Threads(static_cast<int>(count.value));
        return true;
    }
};
