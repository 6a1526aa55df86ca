// The part of the self-check that is about rows of sparse data and about texts.
#include "hashed_runs.hpp"
#include "random.hpp"
#include "sparse_rows.hpp"

#include <cmath>
#include <string>

using namespace mercer;

namespace {

template <class Row>
bool rows_are_right(KernelKind kind, std::size_t n, std::size_t d) {
    std::vector<double> dense(n * d), values;
    std::vector<std::uint32_t> places;
    std::vector<std::int64_t> starts{0};
    random_fill(5, 0, 0, n * d, to_open_unit_interval, dense.data());
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t k = 0; k < d; ++k) {
            double& number = dense[i * d + k];
            number = number < 0.3 || i % 7 == 0 ? 0.0 : i % 5 == 1 ? 0.5 : number - 0.6;
            if (number == 0.0) continue;
            values.push_back(number);
            places.push_back(static_cast<std::uint32_t>(k));
        }
        starts.push_back(static_cast<std::int64_t>(values.size()));
    }
    const SparseKernelRows<Row> source(kind, {values.data(), places.data(), starts.data(), nullptr},
                                       n, d, 1.0);
    const std::size_t first = n / 3, last = n - n / 10;
    std::vector<Row> made(n * (last - first));
    const std::size_t n_items = (n + kSparseRows - 1) / kSparseRows;
    parallel_for(n_items, 3, [&](std::size_t item, int) {
        std::size_t rows[kSparseRows], count = 0;
        Row* out[kSparseRows];
        for (std::size_t i = item * kSparseRows; i < n && count < kSparseRows; ++i, ++count) {
            rows[count] = i;
            out[count] = made.data() + i * (last - first);
        }
        source.fill(rows, count, first, last, out);
    });
    double worst = 0.0;
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = first; j < last; ++j) {
            double sum = 0.0;
            for (std::size_t k = 0; k < d; ++k) {
                const double t = dense[i * d + k] - dense[j * d + k];
                sum += is_direct(kind) ? std::abs(t) : t * t;
            }
            const auto got = static_cast<double>(made[i * (last - first) + j - first]);
            worst = std::max(worst, std::abs(got - std::exp(-sum)));
        }
    return worst < (sizeof(Row) == 4 ? 1e-6 : 1e-12);
}

}  // namespace

bool sparse_rows_are_right() {
    bool right = true;
    for (const auto kind : {KernelKind::gaussian, KernelKind::laplacian})
        for (std::size_t n : {1, 7, 60})
            right =
                right && rows_are_right<float>(kind, n, 11) && rows_are_right<double>(kind, n, 3);
    return right;
}

bool hashed_texts_are_right() {
    // BLAKE2b of "ab", 8 bytes, as Python's hashlib has it.
    std::vector<std::uint32_t> characters;
    std::vector<std::int64_t> starts{0};
    for (std::size_t i = 0; i < 300; ++i) {
        const std::string text = i % 3 ? "ab a ab_c, \xe9" + std::string(i, 'x') : "";
        for (const char c : text) characters.push_back(static_cast<unsigned char>(c));
        starts.push_back(static_cast<std::int64_t>(characters.size()));
    }
    std::vector<std::uint8_t> in_words(128, 0);
    for (int c = '_'; c <= 'z'; ++c) in_words[static_cast<std::size_t>(c)] = 1;
    const std::size_t n = starts.size() - 1;
    std::vector<std::int64_t> counts(n), sizes(n), begins{0};
    const Tokens texts{characters.data(), starts.data(), n, in_words.data(),
                       in_words.size(),   nullptr,       0};
    const auto tokens = token_hashes(texts, counts.data(), 3);
    if (counts[0] != 0 || counts[1] != 2 || counts[2] != 3) return false;
    if (tokens[0] != std::uint64_t{0x8810de87f1b5520e}) return false;
    for (const std::int64_t count : counts) begins.push_back(begins.back() + count);
    const std::int64_t orders[] = {1, 2, 5};
    const Runs work{tokens.data(), begins.data(), n, orders, 3, {3, 4}, 1000, false, false};
    const HashedRuns hashed = hashed_runs(work, sizes.data(), 3);
    double total = 0.0;
    for (const double value : hashed.values) total += value;
    double expected = 0.0;
    for (const std::int64_t count : counts)
        for (const std::int64_t order : orders)
            expected += static_cast<double>(std::max<std::int64_t>(0, count - order + 1));
    return total == expected && hashed.columns.size() == hashed.values.size();
}
