// The Python module: checks the arguments, releases the interpreter, calls one function. What the
// functions do is said here, beside them; `python cpp/stub.py --write` makes src/mercer/_core.pyi.
#include "arguments.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "random.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

using namespace nb::literals;
using namespace mercer;

namespace {

template <Type type, class Convert>
Array<type> random_array(std::uint64_t key, std::uint64_t slot, Integers streams_, std::size_t size,
                         int n_threads, Convert convert) {
    Arrays arrays;
    const Buffer& streams = arrays.read(streams_, "streams", 1);
    const std::size_t count = streams.extent(0);
    auto [result, numbers_] = new_array<type>({count, size});
    const auto* ids = streams.data<const std::int64_t>();
    auto* numbers = numbers_;
    const Released released(arrays);
    constexpr std::size_t block = 64;  // streams handed out together
    if (count * size < 20000) n_threads = 1;
    parallel_for((count + block - 1) / block, n_threads, [&](std::size_t item, int) {
        for (std::size_t i = item * block; i < std::min((item + 1) * block, count); ++i)
            random_fill(key, slot, static_cast<std::uint64_t>(ids[i]), size, convert,
                        numbers + i * size);
    });
    return result;
}

Array<Type::u64> random_bits(std::uint64_t key, std::uint64_t slot, Integers streams,
                             std::size_t size, Threads n_threads) {
    return random_array<Type::u64>(key, slot, streams, size, n_threads,
                                   [](std::uint64_t bits) { return bits; });
}

Doubles random_uniform(std::uint64_t key, std::uint64_t slot, Integers streams, std::size_t size,
                       Threads n_threads) {
    return random_array<Type::f64>(key, slot, streams, size, n_threads, to_open_unit_interval);
}

nb::dict cpu_info() {
    const Cpu cpu = detect_cpu();
    nb::dict info;
    info["architecture"] = cpu.architecture;
    info["features"] = nb::cast(cpu.features);
    info["compiled"] = nb::cast(compiled_levels());
    info["used"] = compiled_levels()[choose_level()];
    return info;
}

// Numbers of x86 and of 64-bit ARM below the normal range take a hundred times as long as others.
bool flush_denormals(bool flush) {
#if defined(__SSE2__) || defined(_M_X64)
    constexpr unsigned both = 0x8040;  // results, and operands
    const unsigned before = _mm_getcsr();
    _mm_setcsr(flush ? before | both : before & ~both);
    return (before & both) == both;
#elif defined(__aarch64__) && defined(__GNUC__)
    constexpr std::uint64_t both = std::uint64_t{1} << 24;
    std::uint64_t before = 0;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(before));
    const std::uint64_t after = flush ? before | both : before & ~both;
    __asm__ __volatile__("msr fpcr, %0" : : "r"(after));
    return (before & both) != 0;
#else
    static_cast<void>(flush);
    return false;
#endif
}

constexpr const char* kModule =
    R"(The C++ core. Arrays are C-contiguous, results are written into arrays the caller owns.

Every function releases the interpreter lock and checks type, shape, alignment and
writability of its arrays, that those it writes share no memory with others, and that
indices stay where they belong: TypeError for a wrong type, ValueError for anything
else, naming the argument. Only the codes of ``binned_matvec``, ``binned_rmatvec`` and
``binned_gram_matvec`` are taken on trust where ``missing`` is false: a look at them
would cost up to a fourth of the product. Who makes a design sees to it
(`designs.Binned`). Other values are not checked; whatever they are, no memory is
touched but that of the arguments.

Arrays must not be changed or resized while a function runs, or while an object keeps
them. Of ``n_threads``, at least 1, at most 1024 are used. The environment variable
``MERCER_ISA`` (x86-64-v2, -v3 or -v4) lowers the instruction set chosen when the module
is imported.)";

}  // namespace

void add_binning(nb::module_& m);    // bindings_binning.cpp
void add_bits(nb::module_& m);       // bindings_bits.cpp
void add_cosines(nb::module_& m);    // bindings_cosines.cpp
void add_descent(nb::module_& m);    // bindings_descent.cpp
void add_dual(nb::module_& m);       // bindings_dual.cpp
void add_kernels(nb::module_& m);    // bindings_kernels.cpp
void add_leaves(nb::module_& m);     // bindings_leaves.cpp
void add_partition(nb::module_& m);  // bindings_partition.cpp
void add_shapley(nb::module_& m);    // bindings_shapley.cpp
void add_svrg(nb::module_& m);       // bindings_svrg.cpp
void add_text(nb::module_& m);       // bindings_text.cpp

NB_MODULE(_core, m) {
    // Other libraries may hold functions until the interpreter is gone; users need not hear of it.
    nb::set_leak_warnings(false);
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const WrongType& error) {
            PyErr_SetString(PyExc_TypeError, error.what());
        }
    });
    choose_level();  // a wrong MERCER_ISA fails here, at import

    m.doc() = kModule;
    m.def("cpu_info", &cpu_info, nb::sig("def cpu_info() -> dict[str, typing.Any]"),
          R"(The processor's ``architecture`` and ``features``, the instruction-set levels
``compiled`` into this build and the one ``used``.)");
    m.def("random_bits", &random_bits, "key"_a, "slot"_a, "streams"_a, "size"_a, "n_threads"_a = 1,
          R"(Bits (m, size): position p of stream s is word p % 4 of Philox 4x64-10 with counter (p
// 4, s, slot, 0) and key (key, 0). Any element can be had without its predecessors.)");
    m.def("random_uniform", &random_uniform, "key"_a, "slot"_a, "streams"_a, "size"_a,
          "n_threads"_a = 1,
          R"(``((bits >> 12) + 0.5) * 2**-52``: uniform on the open interval (0, 1).)");
    m.def(
        "flush_denormals", &flush_denormals, "flush"_a,
        R"(Whether numbers too small for their full precision become 0 in this thread and in threads
that it begins; returns what held before. False where a processor has no such mode.)");
    add_binning(m);
    add_cosines(m);
    add_kernels(m);
    add_bits(m);
    add_descent(m);
    add_svrg(m);
    add_dual(m);
    add_leaves(m);
    add_partition(m);
    add_shapley(m);
    add_text(m);
}
