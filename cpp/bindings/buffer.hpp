// An array argument taken through Python's buffer protocol and checked: its messages name the
// argument, the rule and what came instead. For the bindings alone; the other headers, except
// arguments.hpp, know nothing of Python. Defined in buffer.cpp.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
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
           bool writable = false);
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
    void expect_apart_from(const Buffer& other) const;
    void expect_shape(std::initializer_list<std::size_t> wanted) const;
    [[noreturn]] void fail(const std::string& rule, const std::string& got) const;

    static constexpr std::string_view label(Type type) {
        constexpr std::string_view labels[] = {"float32", "float64", "int32",  "int64", "uint8",
                                               "uint16",  "uint32",  "uint64", "other"};
        return labels[static_cast<int>(type)];
    }

  private:
    std::string text(const std::string& rule, const std::string& got) const;
    std::string dtype() const;
    bool contiguous() const;
    const char* begin() const { return static_cast<const char*>(view_.buf); }
    const char* end() const { return begin() + view_.len; }

    void check_memory() const;

    Py_buffer view_{};
    std::string name_;
    bool writable_;
    Type type_ = Type::other;
};

}  // namespace mercer
