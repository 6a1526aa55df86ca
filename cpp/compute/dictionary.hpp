// From the key of a bin to its number within the grid. Numbers are given in the order in which keys
// are first seen.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "isa.hpp"

namespace mercer {

// Linear probing in 2^bits slots of 8 bytes, zero when free. The home of a key is given by the top
// bits of its hash. A key that sits there is told by the rest of its hash, which the slot keeps
// above the key's number plus one in the low `bits` bits: one look settles most keys (find_home).
// The uppermost of the low bits marks keys that found their home taken; those are compared in full
// with the list of keys.
class Dictionary {
  public:
    Dictionary() { resize(6); }

    const std::vector<std::uint64_t>& keys() const { return keys_; }
    std::size_t size() const { return keys_.size(); }

    // Writes the number of each key, adding those not seen before. False, and what is written is of
    // no use, once a number would leave no value of `Code` free for "unknown".
    template <class Code>
    bool insert(std::span<const std::uint64_t> keys, Code* codes) {
        bool fits = size() <= std::numeric_limits<Code>::max();
        for_each_away(keys, codes, [&](std::uint64_t key, Code& code) {
            const std::size_t number = find_or_add(key, std::numeric_limits<Code>::max());
            fits = fits && number != kNone;
            code = static_cast<Code>(number);
        });
        return fits;
    }

    // The number of a key, which is added unless there are `most` keys already; kNone then.
    std::size_t find_or_add(std::uint64_t key, std::size_t most) {
        const auto [at, number] = seek(key);
        if (number != kNone || size() >= most) return number;
        keys_.push_back(key);
        if (2 * size() >= slots_.size()) {
            resize(bits_ + (bits_ < 12 ? 2 : 1));
            for (std::size_t i = 0; i < size(); ++i) place(keys_[i], i, free_slot(keys_[i]));
        } else {
            place(key, size() - 1, at);
        }
        return size() - 1;
    }
    // The number of a key, kNone for an unknown one.
    std::size_t find(std::uint64_t key) const { return seek(key).number; }
    static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

    // Writes the number of each key, size() for unknown ones; returns how many were unknown.
    template <class Code>
    std::size_t lookup(std::span<const std::uint64_t> keys, Code* codes) const {
        std::size_t n_unknown = 0;
        for_each_away(keys, codes, [&](std::uint64_t key, Code& code) {
            const std::size_t number = find(key);
            n_unknown += number == kNone;
            code = static_cast<Code>(number == kNone ? size() : number);
        });
        return n_unknown;
    }

    // Becomes the dictionary that numbers `keys` 0, 1, ...; false if a key occurs twice.
    bool assign(std::span<const std::uint64_t> keys) {
        keys_.clear();
        keys_.reserve(keys.size());
        resize(std::max(6, static_cast<int>(std::bit_width(2 * keys.size() + 2))));
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (find_or_add(keys[i], keys.size()) != i) return false;
        return true;
    }

  private:
    static constexpr std::size_t kFewKeys = 12;  // find_home looks up 64 together, or as if

    // Writes the numbers of the keys at home and calls f(key, code) for all others, in order. By
    // pieces that are short while there are few keys to find.
    template <class Code, class F>
    void for_each_away(std::span<const std::uint64_t> keys, Code* codes, F f) const {
        if (keys.size() < kFewKeys) {
            for (std::size_t i = 0; i < keys.size(); ++i)
                if (!at_home(keys[i], codes[i])) f(keys[i], codes[i]);
            return;
        }
        constexpr std::size_t most = 1024;
        std::uint16_t away[most];
        for (std::size_t start = 0, piece; start < keys.size(); start += piece) {
            piece =
                std::min(std::clamp<std::size_t>(size() / 64 * 64, 64, most), keys.size() - start);
            const auto part = keys.subspan(start, piece);
            const std::size_t count = code_loops<Code>().find_home(
                part.data(), part.size(), slots_.data(), bits_, codes + start, away);
            for (std::size_t i = 0; i < count; ++i) f(part[away[i]], codes[start + away[i]]);
        }
    }

    // Writes the number of a key that sits at home; see find_home.
    template <class Code>
    bool at_home(std::uint64_t key, Code& code) const {
        const std::uint64_t hash = hash_of_key(key);
        const std::uint64_t number = (slots_[home(hash)] ^ hash << bits_) - 1;
        code = static_cast<Code>(number);
        return number < displaced();
    }

    std::size_t home(std::uint64_t hash) const {
        return static_cast<std::size_t>(hash >> (64 - bits_));
    }
    std::size_t after(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }
    std::uint64_t displaced() const { return std::uint64_t{1} << (bits_ - 1); }

    struct Place {
        std::size_t at, number;
    };
    // Where a key sits, or the free slot that it would take and kNone.
    Place seek(std::uint64_t key) const {
        const std::uint64_t hash = hash_of_key(key), rest = hash << bits_;
        for (std::size_t at = home(hash);; at = after(at)) {
            const std::uint64_t slot = slots_[at];
            if (slot == 0) return {at, kNone};
            if ((slot ^ rest) >> bits_ != 0) continue;
            const std::size_t number = (slot & (displaced() - 1)) - 1;
            if (keys_[number] == key) return {at, number};
        }
    }

    void place(std::uint64_t key, std::size_t number, std::size_t at) {
        const std::uint64_t hash = hash_of_key(key);
        slots_[at] = hash << bits_ | (at == home(hash) ? 0 : displaced()) | (number + 1);
    }
    std::size_t free_slot(std::uint64_t key) const {
        std::size_t at = home(hash_of_key(key));
        while (slots_[at] != 0) at = after(at);
        return at;
    }

    void resize(int bits) {
        bits_ = bits;
        std::vector<std::uint64_t>().swap(slots_);  // the old slots make room first
        slots_.assign(std::size_t{1} << bits, 0);
    }

    std::vector<std::uint64_t> slots_;
    std::vector<std::uint64_t> keys_;  // in the order of numbers
    int bits_ = 0;
};

}  // namespace mercer
