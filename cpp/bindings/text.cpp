// Functions of the Python module for texts, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "hashed_runs.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

using namespace nb::literals;
using namespace mercer;

namespace {

using Bits = Array<Type::u64>;

// The array of these numbers, and where they begin and end: the running sum of `counts`.
template <Type type, class T>
Array<type> new_copy(const std::vector<T>& numbers) {
    auto [result, to] = new_array<type>({numbers.size()});
    std::copy(numbers.begin(), numbers.end(), to);
    return result;
}
std::vector<std::int64_t> running_sum(const std::vector<std::int64_t>& counts) {
    std::vector<std::int64_t> starts(counts.size() + 1, 0);
    for (std::size_t i = 0; i < counts.size(); ++i) starts[i + 1] = starts[i] + counts[i];
    return starts;
}

std::tuple<Bits, Integers> hash_tokens(Array<Type::u32> characters_, Integers starts_,
                                       Array<Type::u8> in_words_, Bits skipped_,
                                       Threads n_threads) {
    Arrays arrays;
    const Buffer& characters = arrays.read(characters_, "characters", 1);
    const Buffer& starts = arrays.read(starts_, "starts", 1);
    const Buffer& skipped = arrays.read(skipped_, "skipped", 1);
    end_of<std::int64_t>(starts, characters.extent(0), "characters");
    Tokens texts{characters.data<const std::uint32_t>(),
                 starts.data<const std::int64_t>(),
                 starts.extent(0) - 1,
                 nullptr,
                 0,
                 skipped.data<const std::uint64_t>(),
                 skipped.extent(0)};
    if (!in_words_.is_none()) {
        const Buffer& in_words = arrays.read(in_words_, "in_words", 1);
        texts.in_words = in_words.data<const std::uint8_t>();
        texts.n_in_words = in_words.extent(0);
    }
    std::vector<std::int64_t> counts(texts.n);
    std::vector<std::uint64_t> hashes;
    {
        const Released released(arrays);
        hashes = token_hashes(texts, counts.data(), n_threads);
    }
    return {new_copy<Type::u64>(hashes), new_integers(running_sum(counts))};
}

std::tuple<Doubles, Array<Type::i32>, Integers> hash_runs(Bits tokens_, Integers starts_,
                                                          Integers orders_, Bits key_,
                                                          std::size_t n_columns, bool with_signs,
                                                          bool normalize, Threads n_threads) {
    Arrays arrays;
    const Buffer& tokens = arrays.read(tokens_, "tokens", 1);
    const Buffer& starts = arrays.read(starts_, "starts", 1);
    const Buffer& orders = arrays.read(orders_, "orders", 1);
    const std::uint64_t* const key = arrays.numbers(key_, "key", 2);
    end_of<std::int64_t>(starts, tokens.extent(0), "tokens");
    const auto* const lengths = orders.data<const std::int64_t>();
    for (std::size_t o = 0; o < orders.extent(0); ++o)
        if (lengths[o] <= (o ? lengths[o - 1] : 0))
            orders.fail("must rise from at least 1", std::to_string(lengths[o]));
    if (n_columns < 1 || n_columns >= std::size_t{1} << 31)
        throw std::invalid_argument("n_columns must be at least 1 and below 2^31; got " +
                                    std::to_string(n_columns) + ".");
    const Runs work{tokens.data<const std::uint64_t>(),
                    starts.data<const std::int64_t>(),
                    starts.extent(0) - 1,
                    lengths,
                    orders.extent(0),
                    {key[0], key[1]},
                    n_columns,
                    with_signs,
                    normalize};
    std::vector<std::int64_t> sizes(work.n);
    HashedRuns hashed;
    {
        const Released released(arrays);
        hashed = hashed_runs(work, sizes.data(), n_threads);
    }
    return {new_copy<Type::f64>(hashed.values), new_copy<Type::i32>(hashed.columns),
            new_integers(running_sum(sizes))};
}

}  // namespace

void add_text(nb::module_& m) {
    m.def(
        "token_hashes", &hash_tokens, "characters"_a, "starts"_a, "in_words"_a.none(), "skipped"_a,
        "n_threads"_a,
        R"(The hashes of the tokens of texts, text after text, and where each text's begin (n + 1).

Text i has the code points starts[i] .. starts[i + 1] - 1 of ``characters``. Tokens are
all runs of two or more of those for which ``in_words``, which may be shorter than
Unicode, is not 0; or, if it is None, every code point. A hash is the BLAKE2b digest of
8 bytes of the token in UTF-8, as a little-endian number. Tokens whose hash is in
``skipped``, which ascends, are left out. The number of threads changes no bit.)");
    m.def("hashed_runs", &hash_runs, "tokens"_a, "starts"_a, "orders"_a, "key"_a, "n_columns"_a,
          "with_signs"_a, "normalize"_a, "n_threads"_a,
          R"(Counts of the runs of tokens of texts in hashed columns, as a CSR matrix: data, indices
and where each text's begin (n + 1).

``tokens`` and ``starts`` are those of ``token_hashes``, ``orders`` the lengths of the
runs, which ascend. The hash h of a run is that of the run without its last token times
0x9e3779b97f4a7c15 plus the last token's, to which its length is added. Of m(m(h +
key[0]) ^ key[1]), with the mixing function m of MurmurHash3, the high half gives the
column and the lowest bit the sign, if there are signs. Counts are divided by the
Euclidean length of those of all runs, if ``normalize``. The number of threads changes
no bit.)");
}
