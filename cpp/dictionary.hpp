// From the key of a bin to its number within the grid. Numbers are given in the order in which keys
// are first seen.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace mercer {

class Dictionary {
  public:
    Dictionary() : buckets_(1) {}

    const std::vector<std::uint64_t>& keys() const { return keys_; }
    std::size_t size() const { return keys_.size(); }

    // Writes the number of each key, adding those not seen before. False once a number would not
    // leave room for one more in `Code` (the value `size()` must stay free for "unseen").
    template <class Code>
    bool insert(std::span<const std::uint64_t> keys, Code* codes) {
        for (std::size_t i = 0; i < keys.size(); ++i) {
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
            const std::uint32_t number = find(keys[i]);
            n_unknown += number == kNone;
            codes[i] = static_cast<Code>(number == kNone ? unknown : number);
        }
        return n_unknown;
    }

    // Builds the dictionary that numbers `keys` 0, 1, ...; false if a key occurs twice.
    bool assign(std::span<const std::uint64_t> keys) {
        *this = Dictionary();
        for (std::uint64_t key : keys) {
            if (find(key) != kNone) return false;
            add(key);
        }
        return true;
    }

  private:
    static constexpr int kSlots = 5;
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
    // One cache line. Slots are filled from the front; free ones hold no number.
    struct alignas(64) Bucket {
        std::uint64_t key[kSlots] = {};
        std::uint32_t number[kSlots] = {kNone, kNone, kNone, kNone, kNone};
        std::uint32_t used = 0;
    };

    // The top bits of an odd multiple depend on every bit of the key.
    std::size_t home(std::uint64_t key) const {
        return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & (buckets_.size() - 1);
    }

    std::uint32_t find(std::uint64_t key) const {
        const std::size_t mask = buckets_.size() - 1;
        for (std::size_t at = home(key);; at = (at + 1) & mask) {
            const Bucket& bucket = buckets_[at];
            std::uint32_t number = kNone;
            for (int slot = kSlots - 1; slot >= 0; --slot)  // free slots come last: they lose
                number = bucket.key[slot] == key ? bucket.number[slot] : number;
            if (number != kNone || bucket.used < kSlots) return number;
        }
    }

    std::uint32_t add(std::uint64_t key) {
        const auto number = static_cast<std::uint32_t>(size());
        keys_.push_back(key);
        if (size() > 3 * buckets_.size()) {
            buckets_.assign(2 * buckets_.size(), Bucket());
            for (std::uint32_t old = 0; old < number; ++old) place(keys_[old], old);
        }
        place(key, number);
        return number;
    }

    void place(std::uint64_t key, std::uint32_t number) {
        const std::size_t mask = buckets_.size() - 1;
        std::size_t at = home(key);
        while (buckets_[at].used == kSlots) at = (at + 1) & mask;
        Bucket& bucket = buckets_[at];
        bucket.key[bucket.used] = key;
        bucket.number[bucket.used++] = number;
    }

    std::vector<Bucket> buckets_;  // a power of two of them
    std::vector<std::uint64_t> keys_;
};

}  // namespace mercer
