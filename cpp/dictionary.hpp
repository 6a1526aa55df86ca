// From the key of a bin to its number within the grid. Numbers are given in the order in which keys
// are first seen.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace mercer {

// Linear probing. A slot is 8 bytes: the number plus one (0: free) and half of the key's hash; the
// key itself, looked at only when the halves agree, stands in the list of keys. The home of a key
// is given by the top bits of its hash, so that growing writes the new table in order.
class Dictionary {
  public:
    Dictionary() { resize(64); }

    const std::vector<std::uint64_t>& keys() const { return keys_; }
    std::size_t size() const { return keys_.size(); }

    // Writes the number of each key, adding those not seen before. False, and nothing more written,
    // once a number would leave no value of `Code` free for "unknown".
    template <class Code>
    bool insert(std::span<const std::uint64_t> keys, Code* codes) {
        for (std::size_t i = 0; i < keys.size(); ++i) {
            prefetch(keys, i);
            std::uint32_t number = find(keys[i]);
            if (number == kNone) {
                if (size() >= std::numeric_limits<Code>::max()) return false;
                number = add(keys[i]);
            }
            codes[i] = static_cast<Code>(number);
        }
        return true;
    }

    // Writes the number of each key, size() for unknown ones; returns how many were unknown.
    template <class Code>
    std::size_t lookup(std::span<const std::uint64_t> keys, Code* codes) const {
        const auto unknown = static_cast<std::uint32_t>(size());
        std::size_t n_unknown = 0;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            prefetch(keys, i);
            const std::uint32_t number = find(keys[i]);
            n_unknown += number == kNone;
            codes[i] = static_cast<Code>(number == kNone ? unknown : number);
        }
        return n_unknown;
    }

    // Becomes the dictionary that numbers `keys` 0, 1, ...; false if a key occurs twice.
    bool assign(std::span<const std::uint64_t> keys) {
        keys_.clear();
        keys_.reserve(keys.size());
        resize(std::bit_ceil(std::max<std::size_t>(64, 2 * keys.size())));
        for (std::uint64_t key : keys) {
            if (find(key) != kNone) return false;
            add(key);
        }
        return true;
    }

  private:
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::size_t kNear = 16384;  // slots that stay in a near cache
    static constexpr std::size_t kAhead = 12;    // probes in flight beyond that

    static std::uint64_t hash(std::uint64_t key) { return key * 0x9E3779B97F4A7C15u; }
    std::size_t home(std::uint64_t hash) const { return static_cast<std::size_t>(hash >> shift_); }

    void prefetch(std::span<const std::uint64_t> keys, std::size_t i) const {
#if defined(__GNUC__)
        if (slots_.size() > kNear && i + kAhead < keys.size())
            __builtin_prefetch(&slots_[home(hash(keys[i + kAhead]))]);
#endif
    }

    std::uint32_t find(std::uint64_t key) const {
        const std::uint64_t hashed = hash(key), mask = slots_.size() - 1;
        const auto half = static_cast<std::uint32_t>(hashed);
        for (std::size_t at = home(hashed);; at = (at + 1) & mask) {
            const std::uint64_t slot = slots_[at];
            const std::uint32_t number = static_cast<std::uint32_t>(slot) - 1;
            if (number == kNone) return kNone;
            if (slot >> 32 == half && keys_[number] == key) return number;
        }
    }

    void place(std::uint64_t key, std::uint32_t number) {
        const std::uint64_t hashed = hash(key), mask = slots_.size() - 1;
        std::size_t at = home(hashed);
        while (static_cast<std::uint32_t>(slots_[at]) != 0) at = (at + 1) & mask;
        slots_[at] = hashed << 32 | (number + 1);
    }

    std::uint32_t add(std::uint64_t key) {
        const auto number = static_cast<std::uint32_t>(size());
        if (size() == capacity_) grow();
        keys_.push_back(key);
        place(key, number);
        return number;
    }

    void grow() {
        const std::vector<std::uint64_t> old = std::move(slots_);
        resize(old.size() * (old.size() < kNear ? 4 : 2));
        for (std::uint64_t slot : old) {
            const std::uint32_t number = static_cast<std::uint32_t>(slot) - 1;
            if (number != kNone) place(keys_[number], number);
        }
    }

    void resize(std::size_t n_slots) {
        slots_.assign(n_slots, 0);
        shift_ = 64 - std::countr_zero(n_slots);
        capacity_ = n_slots <= kNear ? n_slots / 2 : n_slots / 4 * 3;
    }

    std::vector<std::uint64_t> slots_;  // a power of two of them
    std::vector<std::uint64_t> keys_;   // in the order of numbers
    std::size_t capacity_ = 0;
    int shift_ = 0;
};

}  // namespace mercer
