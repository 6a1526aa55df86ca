#include "buffer.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "random.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;
using namespace mercer;

namespace {

nb::object new_array(nb::handle shape, const char *dtype) {
    return nb::module_::import_("numpy").attr("empty")(shape, dtype);
}

template <class Out, class Convert>
nb::object random_array(std::uint64_t key, std::uint64_t slot, nb::handle streams_,
                        std::size_t size, int n_threads, const char *dtype, Convert convert) {
    const Buffer streams(streams_, "streams", {Type::i64}, 1);
    const std::size_t count = streams.extent(0);
    nb::object result = new_array(nb::make_tuple(count, size), dtype);
    Buffer out(result, "result", {Type::f64, Type::u64}, 2, true);
    const auto *ids = streams.data<const std::int64_t>();
    auto *values = out.data<Out>();
    {
        nb::gil_scoped_release released;
        if (count * size < 10000) n_threads = 1;
        parallel_for(count, n_threads, [&](std::size_t i, int) {
            random_fill(key, slot, static_cast<std::uint64_t>(ids[i]), size, convert,
                        values + i * size);
        });
    }
    return result;
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

} // namespace

NB_MODULE(_core, m) {
    m.def("cpu_info", &cpu_info);
    m.def(
        "random_bits",
        [](std::uint64_t key, std::uint64_t slot, nb::handle streams, std::size_t size,
           int n_threads) {
            return random_array<std::uint64_t>(key, slot, streams, size, n_threads, "uint64",
                                               [](std::uint64_t bits) { return bits; });
        },
        "key"_a, "slot"_a, "streams"_a, "size"_a, "n_threads"_a = 1);
    m.def(
        "random_uniform",
        [](std::uint64_t key, std::uint64_t slot, nb::handle streams, std::size_t size,
           int n_threads) {
            return random_array<double>(key, slot, streams, size, n_threads, "float64",
                                        to_open_unit_interval);
        },
        "key"_a, "slot"_a, "streams"_a, "size"_a, "n_threads"_a = 1);
}
