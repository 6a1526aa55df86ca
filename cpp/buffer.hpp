// An array argument, taken through Python's buffer protocol and checked; its error messages name
// the argument. The only header that knows Python; bindings.cpp alone includes it.
#pragma once

#include <nanobind/nanobind.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mercer {

enum class Type { f32, f64, i32, i64, u8, u16, u32, u64, other };

class Buffer {
  public:
    // `accepted` lists the types allowed, `ndim` the number of axes (-1: any).
    Buffer(nanobind::handle object, const char *name, std::initializer_list<Type> accepted,
           int ndim, bool writable = false)
        : name_(name) {
        int flags = PyBUF_FORMAT | PyBUF_STRIDES | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
            PyErr_Clear();
            if (!writable || PyObject_GetBuffer(object.ptr(), &view_, PyBUF_FORMAT | PyBUF_STRIDES))
                fail("must be an array", type_name(object));
            release();
            fail("must be writable", "a read-only array");
        }
        held_ = true;
        type_ = parse(view_);
        bool known = false;
        std::string wanted;
        for (Type t : accepted) {
            known |= t == type_;
            wanted += (wanted.empty() ? "" : " or ") + std::string(label(t));
        }
        if (!known) reject("must have dtype " + wanted, dtype_text());
        if (ndim >= 0 && view_.ndim != ndim)
            reject("must have " + std::to_string(ndim) + (ndim == 1 ? " axis" : " axes"),
                   std::to_string(view_.ndim));
        if (!contiguous()) reject("must be C-contiguous", "a strided array");
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() {
        if (held_) release();
    }

    Type type() const { return type_; }
    int ndim() const { return view_.ndim; }
    std::size_t extent(int axis) const { return static_cast<std::size_t>(view_.shape[axis]); }
    std::size_t size() const {
        std::size_t product = 1;
        for (int axis = 0; axis < view_.ndim; ++axis) product *= extent(axis);
        return product;
    }
    template <class T>
    T *data() const {
        return static_cast<T *>(view_.buf);
    }

    void expect_extent(int axis, std::size_t wanted) const {
        if (extent(axis) != wanted)
            fail("must have length " + std::to_string(wanted) + " along axis " +
                     std::to_string(axis),
                 std::to_string(extent(axis)));
    }
    [[noreturn]] void fail(const std::string &rule, const std::string &got) const {
        throw nanobind::value_error((name_ + " " + rule + ", got " + got).c_str());
    }

  private:
    static std::string_view label(Type t) {
        constexpr std::string_view labels[] = {"float32", "float64", "int32",  "int64", "uint8",
                                               "uint16",  "uint32",  "uint64", "other"};
        return labels[static_cast<int>(t)];
    }
    static std::string type_name(nanobind::handle object) { return Py_TYPE(object.ptr())->tp_name; }
    static Type parse(const Py_buffer &view) {
        std::string_view format = view.format ? view.format : "B";
        if (format.size() == 2 &&
            (format[0] == '=' || format[0] == '@' ||
             (format[0] == (std::endian::native == std::endian::little ? '<' : '>'))))
            format.remove_prefix(1);
        if (format.size() != 1) return Type::other;
        const auto bytes = view.itemsize;
        const char kind = format[0];
        if (kind == 'f') return Type::f32;
        if (kind == 'd') return Type::f64;
        if (std::string_view("bhilqn").find(kind) != std::string_view::npos)
            return bytes == 4 ? Type::i32 : bytes == 8 ? Type::i64 : Type::other;
        if (std::string_view("BHILQN").find(kind) != std::string_view::npos)
            return bytes == 1   ? Type::u8
                   : bytes == 2 ? Type::u16
                   : bytes == 4 ? Type::u32
                                : Type::u64;
        return Type::other;
    }
    std::string dtype_text() const {
        if (type_ != Type::other) return std::string(label(type_));
        return std::string("format ") + (view_.format ? view_.format : "?");
    }
    bool contiguous() const {
        if (size() == 0) return true;
        Py_ssize_t step = view_.itemsize;
        for (int axis = view_.ndim - 1; axis >= 0; --axis) {
            if (view_.shape[axis] != 1 && view_.strides[axis] != step) return false;
            step *= view_.shape[axis];
        }
        return true;
    }
    [[noreturn]] void reject(const std::string &rule, const std::string &got) {
        const std::string text = got;
        release();
        held_ = false;
        throw nanobind::type_error((name_ + " " + rule + ", got " + text).c_str());
    }
    void release() { PyBuffer_Release(&view_); }

    Py_buffer view_{};
    std::string name_;
    Type type_ = Type::other;
    bool held_ = false;
};

} // namespace mercer
