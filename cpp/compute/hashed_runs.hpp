// Runs of the tokens of texts, hashed to columns: what HashedNGrams counts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "token_hashes.hpp"

namespace mercer {

// A bijection of 64-bit numbers after which every bit depends on all (that of MurmurHash3).
inline std::uint64_t well_mixed(std::uint64_t bits) {
    bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccd;
    bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53;
    return bits ^ (bits >> 33);
}

// Counts of runs of tokens in hashed columns, each text's divided by their length if `normalize`.
struct Runs {
    const std::uint64_t* tokens;
    const std::int64_t* starts;  // (n + 1)
    std::size_t n;
    const std::int64_t* orders;  // (n_orders), rising: lengths of runs
    std::size_t n_orders;
    std::uint64_t key[2];
    std::size_t n_columns;  // below 2^31
    bool with_signs, normalize;
};

// The distinct runs of a text and how often they occur.
class RunCounts {
  public:
    struct Run {
        std::uint64_t hash;
        std::int64_t count;
    };
    void count(const Runs& work, const std::uint64_t* tokens, std::size_t length) {
        runs.clear();
        std::size_t slots = 64;
        while (slots < 2 * work.n_orders * length) slots *= 2;
        places_.assign(slots, 0);
        running_.assign(tokens, tokens + length);
        std::size_t order = 1;
        for (std::size_t o = 0; o < work.n_orders; ++o) {
            const auto wanted = static_cast<std::size_t>(work.orders[o]);
            if (wanted > length) break;
            // The hash of a run follows from that of the run without its last token.
            for (; order < wanted; ++order)
                for (std::size_t i = 0; i + order < length; ++i)
                    running_[i] = running_[i] * 0x9e3779b97f4a7c15 + tokens[i + order];
            for (std::size_t i = 0; i + order <= length; ++i) add(running_[i] + order);
        }
    }
    std::vector<Run> runs;

  private:
    void add(std::uint64_t hash) {
        const std::size_t mask = places_.size() - 1;
        std::size_t slot = (hash * 0x9e3779b97f4a7c15 >> 32) & mask;
        for (; places_[slot]; slot = (slot + 1) & mask) {
            Run& run = runs[places_[slot] - 1];
            if (run.hash == hash) {
                ++run.count;
                return;
            }
        }
        runs.push_back({hash, 1});
        places_[slot] = static_cast<std::uint32_t>(runs.size());
    }
    std::vector<std::uint32_t> places_;  // 1 + the number of a run, or 0
    std::vector<std::uint64_t> running_;
};

struct HashedRuns {
    std::vector<std::int32_t> columns;  // rising within a text
    std::vector<double> values;
};

// `sizes` (n) are how many entries there are of each text. What opposite signs cancel has none.
inline HashedRuns hashed_runs(const Runs& work, std::int64_t* sizes, int n_threads) {
    struct Entry {
        std::int32_t column;
        std::int64_t count;
    };
    const TextItems items{work.n};
    std::vector<std::vector<std::int32_t>> columns(items.count());
    std::vector<std::vector<double>> values(items.count());
    parallel_for(items.count(), n_threads, [&](std::size_t item, int) {
        RunCounts counts;
        std::vector<Entry> entries;
        for (std::size_t i = items.first(item); i < items.last(item); ++i) {
            counts.count(work, work.tokens + work.starts[i],
                         static_cast<std::size_t>(work.starts[i + 1] - work.starts[i]));
            entries.clear();
            double squares = 0.0;
            for (const RunCounts::Run& run : counts.runs) {
                const std::uint64_t mixed =
                    well_mixed(well_mixed(run.hash + work.key[0]) ^ work.key[1]);
                const bool negative = work.with_signs && (mixed & 1);
                entries.push_back({static_cast<std::int32_t>((mixed >> 32) * work.n_columns >> 32),
                                   negative ? -run.count : run.count});
                squares += static_cast<double>(run.count) * static_cast<double>(run.count);
            }
            std::sort(entries.begin(), entries.end(),
                      [](const Entry& a, const Entry& b) { return a.column < b.column; });
            const double length = work.normalize ? std::sqrt(squares) : 1.0;
            const std::size_t before = columns[item].size();
            for (std::size_t e = 0; e < entries.size();) {
                const std::int32_t column = entries[e].column;
                std::int64_t sum = 0;
                for (; e < entries.size() && entries[e].column == column; ++e)
                    sum += entries[e].count;
                if (!sum) continue;
                columns[item].push_back(column);
                values[item].push_back(static_cast<double>(sum) / length);
            }
            sizes[i] = static_cast<std::int64_t>(columns[item].size() - before);
        }
    });
    return {joined(columns), joined(values)};
}

}  // namespace mercer
