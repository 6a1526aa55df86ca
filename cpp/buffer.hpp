// An array argument taken through Python's buffer protocol and checked: its messages name the
// argument, the rule and what came instead. For the bindings alone; the other headers, except
// arguments.hpp, know nothing of Python.
#pragma once

#include <Python.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mercer {

enum class Type { f32, f64, i32, i64, u8, u16, u32, u64, other };

struct WrongType : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Buffer {
  public:
    // `accepted` lists the types allowed, `ndim` the number of axes (0: one or two).
    Buffer(PyObject* object, const char* name, std::initializer_list<Type> accepted, int ndim,
           bool writable = false)
        : name_(name), writable_(writable) {
        constexpr int readable = PyBUF_FORMAT | PyBUF_STRIDES;
        if (PyObject_GetBuffer(object, &view_, readable) != 0) {
            PyErr_Clear();
            throw WrongType(text("must be an array", Py_TYPE(object)->tp_name));
        }
        const Release on_failure{&view_};
        type_ = parse(view_);
        std::string wanted;
        bool known = false;
        for (Type type : accepted) {
            known |= type == type_;
            wanted += (wanted.empty() ? "" : " or ") + std::string(label(type));
        }
        if (!known) throw WrongType(text("must have dtype " + wanted, dtype()));
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
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { PyBuffer_Release(&view_); }

    Type type() const { return type_; }
    int ndim() const { return view_.ndim; }
    std::size_t extent(int axis) const { return static_cast<std::size_t>(view_.shape[axis]); }
    // Numbers per step along the first axis.
    std::size_t width() const { return view_.ndim == 1 ? 1 : extent(1); }
    template <class T>
    T* data() const {
        return static_cast<T*>(view_.buf);
    }

    // Throws if one of the two is written and they share memory: what a loop relies on would change
    // under it.
    void expect_apart_from(const Buffer& other) const {
        if (!(writable_ || other.writable_) || view_.len == 0 || other.view_.len == 0) return;
        const std::less<const char*> before;
        if (before(begin(), other.end()) && before(other.begin(), end()))
            fail("must share no memory with " + other.name_, "overlapping arrays");
    }
    void expect_shape(std::initializer_list<std::size_t> wanted) const {
        std::string shape, got;
        bool same = wanted.size() == static_cast<std::size_t>(view_.ndim);
        for (std::size_t length : wanted)
            shape += (shape.empty() ? "" : ", ") + std::to_string(length);
        for (int axis = 0; axis < view_.ndim; ++axis) {
            got += (axis ? ", " : "") + std::to_string(extent(axis));
            same = same && extent(axis) == wanted.begin()[axis];
        }
        if (!same) fail("must have shape (" + shape + ")", "(" + got + ")");
    }
    [[noreturn]] void fail(const std::string& rule, const std::string& got) const {
        throw std::invalid_argument(text(rule, got));
    }

    static constexpr std::string_view label(Type type) {
        constexpr std::string_view labels[] = {"float32", "float64", "int32",  "int64", "uint8",
                                               "uint16",  "uint32",  "uint64", "other"};
        return labels[static_cast<int>(type)];
    }

  private:
    struct Release {  // the destructor does not run when the constructor throws
        Py_buffer* view;
        mutable bool armed = true;
        void disarm() const { armed = false; }
        ~Release() {
            if (armed) PyBuffer_Release(view);
        }
    };

    std::string text(const std::string& rule, const std::string& got) const {
        return name_ + " " + rule + "; got " + got + ".";
    }
    static Type parse(const Py_buffer& view) {
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
    std::string dtype() const {
        if (type_ != Type::other) return std::string(label(type_));
        return std::string("format ") + (view_.format ? view_.format : "?");
    }
    bool contiguous() const {
        Py_ssize_t step = view_.itemsize;
        bool dense = true, empty = false;
        for (int axis = view_.ndim - 1; axis >= 0; --axis) {
            empty |= view_.shape[axis] == 0;
            dense = dense && (view_.shape[axis] == 1 || view_.strides[axis] == step);
            step *= view_.shape[axis];
        }
        return dense || empty;
    }

    const char* begin() const { return static_cast<const char*>(view_.buf); }
    const char* end() const { return begin() + view_.len; }

    // Numbers lie where their type may lie. An array without any may claim to have 2^60 rows of
    // nothing: then sizes would overflow and loops never end.
    void check_memory() const {
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

    Py_buffer view_{};
    std::string name_;
    bool writable_;
    Type type_ = Type::other;
};

}  // namespace mercer
