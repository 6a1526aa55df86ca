// The Python module: checks the arguments, releases the interpreter, calls one function.
#include "arguments.hpp"
#include "binning.hpp"
#include "buffer.hpp"
#include "cosine.hpp"
#include "products.hpp"
#include "random.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <variant>

using namespace nb::literals;
using namespace mercer;

namespace {

// ---- binning ------------------------------------------------------------------------------------

class BinTable {
  public:
    explicit BinTable(std::size_t n_grids) : dictionaries_(n_grids) {}

    bool insert(std::size_t first_grid, const Arrays& arrays, const Data& data,
                const GridArguments& arguments, int n_threads) {
        const auto part = slice(first_grid, arguments.grids.count);
        return with_code(arguments.out.type(), [&](auto zero) {
            auto* codes = arguments.out.data<decltype(zero)>();
            const Released released(arrays);
            const std::unique_lock alone(turns_);
            return std::visit(
                [&](const auto& points) {
                    return insert_codes(part, points, arguments.grids, codes, n_threads);
                },
                data.points);
        });
    }

    std::size_t lookup(std::size_t first_grid, const Arrays& arrays, const Data& data,
                       const GridArguments& arguments, int n_threads) {
        const auto part = slice(first_grid, arguments.grids.count);
        return with_code(arguments.out.type(), [&](auto zero) {
            using Code = decltype(zero);
            const Released released(arrays);
            const std::shared_lock nobody_inserts(turns_);
            for (const Dictionary& dictionary : part)
                if (dictionary.size() > std::numeric_limits<Code>::max())
                    arguments.out.fail("must be wide enough for every bin and one value more",
                                       std::to_string(dictionary.size()) + " bins");
            auto* codes = arguments.out.data<Code>();
            return std::visit(
                [&](const auto& points) {
                    return lookup_codes(std::span<const Dictionary>(part), points, arguments.grids,
                                        codes, n_threads);
                },
                data.points);
        });
    }

    // Nothing here calls Python while it holds the table: whoever waits for it holds the
    // interpreter.
    nb::object n_bins() const {
        std::vector<std::int64_t> sizes;
        {
            const std::shared_lock nobody_inserts(turns_);
            for (const Dictionary& dictionary : dictionaries_)
                sizes.push_back(static_cast<std::int64_t>(dictionary.size()));
        }
        return new_integers(sizes);
    }

    nb::object keys() const {
        std::vector<std::uint64_t> all;
        {
            const std::shared_lock nobody_inserts(turns_);
            for (const Dictionary& dictionary : dictionaries_)
                all.insert(all.end(), dictionary.keys().begin(), dictionary.keys().end());
        }
        nb::object result = new_array(nb::int_(all.size()), "uint64");
        const Buffer out(result.ptr(), "keys", {Type::u64}, 1, true);
        out.expect_shape({all.size()});
        std::copy(all.begin(), all.end(), out.data<std::uint64_t>());
        return result;
    }

    static std::unique_ptr<BinTable> from_keys(nb::handle keys_, nb::handle n_bins_,
                                               Threads n_threads) {
        Arrays arrays;
        const Buffer& keys = arrays.read(keys_, "keys", {Type::u64}, 1);
        const Buffer& n_bins = arrays.read(n_bins_, "n_bins", {Type::i64}, 1);
        auto table = std::make_unique<BinTable>(n_bins.extent(0));
        std::vector<std::span<const std::uint64_t>> parts;
        std::size_t at = 0;
        for (std::size_t g = 0; g < n_bins.extent(0); ++g) {
            const auto count = static_cast<std::size_t>(n_bins.data<const std::int64_t>()[g]);
            if (count > keys.extent(0) - at) at = keys.extent(0) + 1;
            if (at > keys.extent(0)) break;
            parts.emplace_back(keys.data<const std::uint64_t>() + at, count);
            at += count;
        }
        if (at != keys.extent(0))
            keys.fail("must have as many entries as n_bins says", std::to_string(keys.extent(0)));
        std::atomic<bool> distinct{true};
        {
            const Released released(arrays);
            parallel_for(parts.size(), n_threads, [&](std::size_t g, int) {
                if (!table->dictionaries_[g].assign(parts[g])) distinct = false;
            });
        }
        if (!distinct) keys.fail("must be distinct within a grid", "a repeated one");
        return table;
    }

  private:
    std::span<Dictionary> slice(std::size_t first_grid, std::size_t count) {
        if (first_grid > dictionaries_.size() || count > dictionaries_.size() - first_grid)
            throw std::invalid_argument("first_grid must leave room for " + std::to_string(count) +
                                        " of " + std::to_string(dictionaries_.size()) +
                                        " grids; got " + std::to_string(first_grid) + ".");
        return {dictionaries_.data() + first_grid, count};
    }
    std::vector<Dictionary> dictionaries_;
    mutable std::shared_mutex turns_;
};

void bin_hashed(const Arrays& arrays, const Data& data, const GridArguments& arguments,
                std::uint64_t n_columns, int n_threads) {
    with_code(arguments.out.type(), [&](auto zero) {
        using Code = decltype(zero);
        const std::uint64_t most = std::uint64_t{1} << 8 * std::min<std::size_t>(sizeof(Code), 4);
        if (n_columns < 1 || n_columns > most || n_columns > 0xffffffffu)
            throw std::invalid_argument("n_columns must be at least 1 and fit the codes; got " +
                                        std::to_string(n_columns) + ".");
        auto* codes = arguments.out.data<Code>();
        const Released released(arrays);
        std::visit(
            [&](const auto& points) {
                hash_codes(points, arguments.grids, static_cast<std::uint32_t>(n_columns), codes,
                           n_threads);
            },
            data.points);
    });
}

// ---- products -----------------------------------------------------------------------------------

template <Product product>
void binned_product(nb::handle codes_, nb::handle offsets, nb::handle operand, nb::handle out,
                    double scale, bool missing, Threads n_threads) {
    const ProductArguments arguments(product, codes_, offsets, operand, out);
    const BinArguments& bins = arguments.bins;
    const std::size_t k = arguments.k;
    arguments.run([&]<class Code, class T>(const Code* codes, const T* from, T* to) {
        const BinnedMatrix<Code> Z{codes, bins.starts, bins.n_grids, bins.n, missing};
        if constexpr (product == Product::matvec)
            matvec(Z, from, k, to, scale, n_threads);
        else if constexpr (product == Product::rmatvec)
            rmatvec(Z, from, k, to, scale, n_threads);
        else
            gram_matvec(Z, from, k, to, scale, n_threads);
    });
}

// ---- cosines ------------------------------------------------------------------------------------

void cosines(nb::handle X, nb::handle frequencies_, nb::handle phases_, double scale,
             nb::handle out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& points = arrays.read(X, "X", {Type::f32, Type::f64}, 2);
    const Type type = points.type();
    const Buffer& frequencies = arrays.read(frequencies_, "frequencies", {type}, 2);
    const Buffer& out = arrays.write(out_, "out", {type}, 2);
    const std::size_t n = points.extent(0), d = points.extent(1), m = frequencies.extent(0);
    frequencies.expect_shape({m, d});
    out.expect_shape({n, phases_.is_none() ? 2 * m : m});
    with_float(type, [&](auto zero) {
        using T = decltype(zero);
        const Cosines<T> work{points.data<const T>(),
                              frequencies.data<const T>(),
                              arrays.optional<T>(phases_, "phases", type, m),
                              n,
                              d,
                              m,
                              static_cast<T>(scale),
                              out.data<T>()};
        const Released released(arrays);
        cosine_block(work, n_threads);
    });
}

void cosines_inplace(nb::handle values_, nb::handle phases_, double scale, Threads n_threads) {
    Arrays arrays;
    const Buffer& values = arrays.write(values_, "values", {Type::f32, Type::f64}, 2);
    const Buffer& phases = arrays.read(phases_, "phases", {values.type()}, 1);
    phases.expect_shape({values.extent(1)});
    with_float(values.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        cosine_inplace(values.data<T>(), phases.data<const T>(), values.extent(0), values.extent(1),
                       static_cast<T>(scale), n_threads);
    });
}

void pairs_from(nb::handle arguments_, double scale, nb::handle out_, Threads n_threads) {
    Arrays arrays;
    const Buffer& arguments = arrays.read(arguments_, "arguments", {Type::f32, Type::f64}, 2);
    const Buffer& out = arrays.write(out_, "out", {arguments.type()}, 2);
    out.expect_shape({arguments.extent(0), 2 * arguments.extent(1)});
    with_float(arguments.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        cosine_pairs_from(arguments.data<const T>(), arguments.extent(0), arguments.extent(1),
                          static_cast<T>(scale), out.data<T>(), n_threads);
    });
}

// ---- random numbers and the processor -----------------------------------------------------------

template <class Out, class Convert>
nb::object random_array(std::uint64_t key, std::uint64_t slot, nb::handle streams_,
                        std::size_t size, int n_threads, const char* dtype, Convert convert) {
    Arrays arrays;
    const Buffer& streams = arrays.read(streams_, "streams", {Type::i64}, 1);
    const std::size_t count = streams.extent(0);
    nb::object result = new_array(nb::make_tuple(count, size), dtype);
    const Buffer& out = arrays.write(result, "result", {Type::f64, Type::u64}, 2);
    out.expect_shape({count, size});
    const auto* ids = streams.data<const std::int64_t>();
    auto* numbers = out.data<Out>();
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

nb::dict cpu_info() {
    const Cpu cpu = detect_cpu();
    nb::dict info;
    info["architecture"] = cpu.architecture;
    info["features"] = nb::cast(cpu.features);
    info["compiled"] = nb::cast(compiled_levels());
    info["used"] = compiled_levels()[choose_level()];
    return info;
}

}  // namespace

void add_bits(nb::module_& m);      // bindings_bits.cpp
void add_descent(nb::module_& m);   // bindings_descent.cpp
void add_dual(nb::module_& m);      // bindings_dual.cpp
void add_hadamard(nb::module_& m);  // bindings_hadamard.cpp
void add_kernels(nb::module_& m);   // bindings_kernels.cpp
void add_svrg(nb::module_& m);      // bindings_svrg.cpp
void add_weighted(nb::module_& m);  // bindings_weighted.cpp

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

    m.def("cpu_info", &cpu_info);
    m.def(
        "random_bits",
        [](std::uint64_t key, std::uint64_t slot, nb::handle streams, std::size_t size,
           Threads n_threads) {
            return random_array<std::uint64_t>(key, slot, streams, size, n_threads, "uint64",
                                               [](std::uint64_t bits) { return bits; });
        },
        "key"_a, "slot"_a, "streams"_a, "size"_a, "n_threads"_a = 1);
    m.def(
        "random_uniform",
        [](std::uint64_t key, std::uint64_t slot, nb::handle streams, std::size_t size,
           Threads n_threads) {
            return random_array<double>(key, slot, streams, size, n_threads, "float64",
                                        to_open_unit_interval);
        },
        "key"_a, "slot"_a, "streams"_a, "size"_a, "n_threads"_a = 1);

    nb::class_<BinTable>(m, "BinTable")
        .def(nb::init<std::size_t>(), "n_grids"_a)
        .def("insert",
             [](BinTable& table, std::size_t first_grid, nb::handle X, nb::handle inverse_widths,
                nb::handle shifts, nb::handle multipliers, nb::handle codes, Threads n_threads) {
                 Arrays arrays;
                 const Data data(arrays, X);
                 return table.insert(first_grid, arrays, data,
                                     {arrays, data, inverse_widths, shifts, multipliers, codes},
                                     n_threads);
             })
        .def("insert",
             [](BinTable& table, std::size_t first_grid, nb::handle values, nb::handle indices,
                nb::handle indptr, std::size_t d, nb::handle inverse_widths, nb::handle shifts,
                nb::handle multipliers, nb::handle codes, Threads n_threads) {
                 Arrays arrays;
                 const Data data(arrays, values, indices, indptr, d);
                 return table.insert(first_grid, arrays, data,
                                     {arrays, data, inverse_widths, shifts, multipliers, codes},
                                     n_threads);
             })
        .def("lookup",
             [](BinTable& table, std::size_t first_grid, nb::handle X, nb::handle inverse_widths,
                nb::handle shifts, nb::handle multipliers, nb::handle codes, Threads n_threads) {
                 Arrays arrays;
                 const Data data(arrays, X);
                 return table.lookup(first_grid, arrays, data,
                                     {arrays, data, inverse_widths, shifts, multipliers, codes},
                                     n_threads);
             })
        .def("lookup",
             [](BinTable& table, std::size_t first_grid, nb::handle values, nb::handle indices,
                nb::handle indptr, std::size_t d, nb::handle inverse_widths, nb::handle shifts,
                nb::handle multipliers, nb::handle codes, Threads n_threads) {
                 Arrays arrays;
                 const Data data(arrays, values, indices, indptr, d);
                 return table.lookup(first_grid, arrays, data,
                                     {arrays, data, inverse_widths, shifts, multipliers, codes},
                                     n_threads);
             })
        .def_prop_ro("n_bins", &BinTable::n_bins)
        .def("keys", &BinTable::keys)
        .def_static("from_keys", &BinTable::from_keys, "keys"_a, "n_bins"_a, "n_threads"_a = 1);
    m.def("bin_hashed",
          [](nb::handle X, nb::handle inverse_widths, nb::handle shifts, nb::handle multipliers,
             std::uint64_t n_columns, nb::handle codes, Threads n_threads) {
              Arrays arrays;
              const Data data(arrays, X);
              bin_hashed(arrays, data, {arrays, data, inverse_widths, shifts, multipliers, codes},
                         n_columns, n_threads);
          });
    m.def("bin_hashed", [](nb::handle values, nb::handle indices, nb::handle indptr, std::size_t d,
                           nb::handle inverse_widths, nb::handle shifts, nb::handle multipliers,
                           std::uint64_t n_columns, nb::handle codes, Threads n_threads) {
        Arrays arrays;
        const Data data(arrays, values, indices, indptr, d);
        bin_hashed(arrays, data, {arrays, data, inverse_widths, shifts, multipliers, codes},
                   n_columns, n_threads);
    });

    m.def("binned_matvec", &binned_product<Product::matvec>, "codes"_a, "offsets"_a, "w"_a, "out"_a,
          "scale"_a, "missing"_a, "n_threads"_a);
    m.def("binned_rmatvec", &binned_product<Product::rmatvec>, "codes"_a, "offsets"_a, "v"_a,
          "out"_a, "scale"_a, "missing"_a, "n_threads"_a);
    m.def("binned_gram_matvec", &binned_product<Product::gram>, "codes"_a, "offsets"_a, "v"_a,
          "out"_a, "scale"_a, "missing"_a, "n_threads"_a);

    add_weighted(m);
    add_hadamard(m);
    add_kernels(m);
    add_bits(m);
    add_descent(m);
    add_svrg(m);
    add_dual(m);
    m.def("cosine_block", &cosines, "X"_a, "frequencies"_a, "phases"_a, "scale"_a, "out"_a,
          "n_threads"_a);
    m.def(
        "cosine_pairs",
        [](nb::handle X, nb::handle frequencies, double scale, nb::handle out, Threads n_threads) {
            cosines(X, frequencies, nb::none(), scale, out, n_threads);
        },
        "X"_a, "frequencies"_a, "scale"_a, "out"_a, "n_threads"_a);
    m.def("cosine_inplace", &cosines_inplace, "values"_a, "phases"_a, "scale"_a, "n_threads"_a);
    m.def("cosine_pairs_from", &pairs_from, "arguments"_a, "scale"_a, "out"_a, "n_threads"_a);
}
