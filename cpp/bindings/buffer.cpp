// The checks of array arguments that buffer.hpp declares.
#include "buffer.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <bit>
#include <functional>

namespace nb = nanobind;

namespace mercer {
namespace {

struct Release {  // the destructor does not run when the constructor throws
    Py_buffer* view;
    mutable bool armed = true;
    void disarm() const { armed = false; }
    ~Release() {
        if (armed) PyBuffer_Release(view);
    }
};

Type parse(const Py_buffer& view) {
    constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
    std::string_view format = view.format ? view.format : "B";
    if (format.size() == 2 && (format[0] == '=' || format[0] == '@' || format[0] == native))
        format.remove_prefix(1);
    const auto is = [&](const char* kinds, Py_ssize_t bytes) {
        return format.size() == 1 && view.itemsize == bytes &&
               std::string_view(kinds).find(format[0]) != std::string_view::npos;
    };
    if (is("f", 4)) return Type::f32;
    if (is("d", 8)) return Type::f64;
    if (is("ilqn", 4)) return Type::i32;
    if (is("ilqn", 8)) return Type::i64;
    if (is("B", 1)) return Type::u8;
    if (is("H", 2)) return Type::u16;
    if (is("ILQN", 4)) return Type::u32;
    if (is("ILQN", 8)) return Type::u64;
    return Type::other;
}

}  // namespace

Buffer::Buffer(PyObject* object, const char* name, std::initializer_list<Type> accepted, int ndim,
               bool writable)
    : name_(name), writable_(writable) {
    constexpr int readable = PyBUF_FORMAT | PyBUF_STRIDES;
    if (PyObject_GetBuffer(object, &view_, readable) != 0) {
        PyErr_Clear();
        const auto type = nb::steal<nb::str>(PyType_GetName(Py_TYPE(object)));
        throw WrongType(text("must be an array", type.c_str()));
    }
    const Release on_failure{&view_};
    type_ = parse(view_);
    if (std::find(accepted.begin(), accepted.end(), type_) == accepted.end()) {
        std::string wanted;
        for (Type type : accepted)
            wanted += (wanted.empty() ? "" : " or ") + std::string(label(type));
        throw WrongType(text("must have dtype " + wanted, dtype()));
    }
    if (ndim == 0 ? view_.ndim != 1 && view_.ndim != 2 : view_.ndim != ndim)
        fail(ndim == 0   ? "must have one or two axes"
             : ndim == 1 ? "must have one axis"
             : ndim == 2 ? "must have two axes"
                         : "must have three axes",
             std::to_string(view_.ndim));
    if (!contiguous()) fail("must be C-contiguous", "a strided array");
    if (writable && view_.readonly) fail("must be writable", "a read-only array");
    check_memory();
    on_failure.disarm();
}

void Buffer::expect_apart_from(const Buffer& other) const {
    if (!(writable_ || other.writable_) || view_.len == 0 || other.view_.len == 0) return;
    const std::less<const char*> before;
    if (before(begin(), other.end()) && before(other.begin(), end()))
        fail("must share no memory with " + other.name_, "overlapping arrays");
}

void Buffer::expect_shape(std::initializer_list<std::size_t> wanted) const {
    bool same = wanted.size() == static_cast<std::size_t>(view_.ndim);
    for (int axis = 0; same && axis < view_.ndim; ++axis)
        same = extent(axis) == wanted.begin()[axis];
    if (same) return;
    std::string shape, got;
    for (std::size_t length : wanted) shape += (shape.empty() ? "" : ", ") + std::to_string(length);
    for (int axis = 0; axis < view_.ndim; ++axis)
        got += (axis ? ", " : "") + std::to_string(extent(axis));
    fail("must have shape (" + shape + ")", "(" + got + ")");
}

void Buffer::fail(const std::string& rule, const std::string& got) const {
    throw std::invalid_argument(text(rule, got));
}

std::string Buffer::text(const std::string& rule, const std::string& got) const {
    return name_ + " " + rule + "; got " + got + ".";
}

std::string Buffer::dtype() const {
    if (type_ != Type::other) return std::string(label(type_));
    return std::string("format ") + (view_.format ? view_.format : "?");
}

bool Buffer::contiguous() const {
    Py_ssize_t step = view_.itemsize;
    bool dense = true, empty = false;
    for (int axis = view_.ndim - 1; axis >= 0; --axis) {
        empty |= view_.shape[axis] == 0;
        dense = dense && (view_.shape[axis] == 1 || view_.strides[axis] == step);
        step *= view_.shape[axis];
    }
    return dense || empty;
}

// Numbers lie where their type may lie. An array without any may claim to have 2^60 rows of
// nothing: then sizes would overflow and loops never end.
void Buffer::check_memory() const {
    if (view_.len == 0) {
        for (int axis = 0; axis < view_.ndim; ++axis)
            if (static_cast<std::uint64_t>(extent(axis)) >> 32)
                fail("must have less than 2^32 rows or columns where it is empty",
                     std::to_string(extent(axis)));
        return;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(view_.buf);
    if (address % static_cast<std::uintptr_t>(view_.itemsize) != 0)
        fail("must be aligned to its numbers", "an address between two of them");
}

}  // namespace mercer
