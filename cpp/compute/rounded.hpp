// Which numbers of float32 the numbers of a chunk of rows may round to, input by input.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace mercer {

// A few bits per number, at most one of them set: a number that was not added is taken for one of
// those that were about one time in kBitsPerNumber. Nothing is kept of float32, which is never
// rounded, and nothing for few grids, which would not pay: then any number may be there.
template <class T>
class RoundedNumbers {
  public:
    static constexpr std::size_t kBitsPerNumber = 16, kFewGrids = 16;

    // Forgets all and makes room for `count` numbers of each of d inputs.
    void start(std::size_t d, std::size_t count, std::size_t n_grids) {
        n_inputs_ = std::is_same_v<T, float> || n_grids < kFewGrids ? 0 : d;
        bits_ = std::clamp(static_cast<int>(std::bit_width(kBitsPerNumber * count - 1)), 6, 31);
        words_.assign(n_inputs_ << (bits_ - 6), 0);
    }
    std::size_t n_inputs() const { return n_inputs_; }

    void add(std::size_t input, const float* numbers, std::size_t count) {
        std::uint64_t* words = words_.data() + (input << (bits_ - 6));
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t at = place(numbers[i]);
            words[at / 64] |= std::uint64_t{1} << at % 64;
        }
    }

    bool may_be(std::size_t input, float number) const {
        if (std::is_same_v<T, float>) return false;
        if (n_inputs_ == 0) return true;
        const std::uint32_t at = place(number);
        return words_[(input << (bits_ - 6)) + at / 64] >> at % 64 & 1;
    }

  private:
    std::uint32_t place(float number) const {  // adding 0 makes -0 and 0 one
        return std::bit_cast<std::uint32_t>(number + 0.0f) * 0x9E3779B1u >> (32 - bits_);
    }
    int bits_ = 6;
    std::size_t n_inputs_ = 0;
    std::vector<std::uint64_t> words_;
};

}  // namespace mercer
