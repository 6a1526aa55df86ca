// The boxes of one grid in a chunk of rows as the cells of a small table: where inputs cross few
// edges, all boxes that rows may be in are few, too, and counting through them takes half the
// arithmetic of a key and no search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "loops.hpp"

namespace mercer {

// A cell is the sum over inputs of (code - least code) * stride, where strides multiply the numbers
// of codes of the inputs before: every box between the least and the largest codes has its own.
class Cells {
  public:
    std::size_t count() const { return count_; }  // 0 if there are too many
    const std::uint64_t* strides() const { return strides_.data(); }

    // Lays out the boxes between the codes `low` and `high` of d inputs, `most` at most; `base` is
    // the key of the box of the least codes.
    void lay_out(const std::int32_t* low, const std::int32_t* high,
                 const std::uint64_t* multipliers, std::size_t d, std::uint64_t base,
                 std::size_t most) {
        strides_.resize(d);
        inner_.assign(1, 0);
        outer_.assign(1, base);
        count_ = 1;
        for (std::size_t j = 0; j < d; ++j) {
            const std::int64_t codes = std::int64_t{high[j]} - low[j] + 1;
            if (codes < 1 || codes > kMostCodes ||
                count_ * static_cast<std::size_t>(codes) > most) {
                count_ = 0;
                return;
            }
            strides_[j] = count_;
            const auto n_codes = static_cast<std::size_t>(codes);
            const bool is_inner = outer_.size() == 1 && inner_.size() * n_codes <= kMostInner;
            repeat(is_inner ? inner_ : outer_, n_codes, multipliers[j]);
            count_ *= n_codes;
        }
    }

    std::uint64_t key(std::uint32_t cell) const {
        const auto size = static_cast<std::uint32_t>(inner_.size());
        return add_packed(outer_[cell / size], inner_[cell % size]);
    }

  private:
    // An input of more codes would need long tables, as would more cells of the inner inputs.
    static constexpr std::int64_t kMostCodes = 64;
    static constexpr std::size_t kMostInner = 1024;

    // The keys for code 0 of one more input become those for its `n_codes` codes.
    static void repeat(std::vector<std::uint64_t>& keys, std::size_t n_codes,
                       std::uint64_t multiplier) {
        const std::size_t size = keys.size();
        keys.resize(size * n_codes);
        for (std::size_t i = size; i < keys.size(); ++i)
            keys[i] = add_packed(keys[i - size], multiplier);
    }

    std::size_t count_ = 0;
    std::vector<std::uint64_t> strides_;
    std::vector<std::uint64_t> inner_, outer_;  // a key is the sum of one of each
};

}  // namespace mercer
