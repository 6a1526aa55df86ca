// The hashes of the tokens of texts, which are code points one after another.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel.hpp"

namespace mercer {

// The first 8 bytes of the BLAKE2b digest (RFC 7693) of that length, as a little-endian number.
class Blake {
  public:
    static std::uint64_t digest(const std::uint8_t* bytes, std::size_t length) {
        std::uint64_t state[8];
        std::copy(std::begin(start), std::end(start), state);
        state[0] ^= 0x01010008;  // no key, 8 bytes
        std::size_t done = 0;
        while (length - done > 128) {
            done += 128;
            compress(state, bytes + done - 128, 128, done, false);
        }
        compress(state, bytes + done, length - done, length, true);
        return state[0];
    }

  private:
    static constexpr std::uint64_t start[8] = {
        0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
        0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
    static constexpr std::uint8_t order[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
        {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
        {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
        {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
        {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

    static void mix(std::uint64_t* v, int a, int b, int c, int d, std::uint64_t x,
                    std::uint64_t y) {
        v[a] += v[b] + x;
        v[d] = std::rotr(v[d] ^ v[a], 32);
        v[c] += v[d];
        v[b] = std::rotr(v[b] ^ v[c], 24);
        v[a] += v[b] + y;
        v[d] = std::rotr(v[d] ^ v[a], 16);
        v[c] += v[d];
        v[b] = std::rotr(v[b] ^ v[c], 63);
    }
    static void compress(std::uint64_t* state, const std::uint8_t* bytes, std::size_t count,
                         std::uint64_t total, bool last) {
        std::uint64_t words[16] = {}, v[16];
        for (std::size_t i = 0; i < count; ++i)
            words[i / 8] |= static_cast<std::uint64_t>(bytes[i]) << (8 * (i % 8));
        for (int i = 0; i < 8; ++i) {
            v[i] = state[i];
            v[8 + i] = start[i];
        }
        v[12] ^= total;
        if (last) v[14] = ~v[14];
        for (int round = 0; round < 12; ++round) {
            const std::uint8_t* const at = order[round % 10];
            for (int i = 0; i < 4; ++i)
                mix(v, i, 4 + i, 8 + i, 12 + i, words[at[2 * i]], words[at[2 * i + 1]]);
            for (int i = 0; i < 4; ++i)
                mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, words[at[8 + 2 * i]],
                    words[at[9 + 2 * i]]);
        }
        for (int i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[8 + i];
    }
};

// The hashes of tokens, each digested once while it is remembered.
class TokenHashes {
  public:
    std::uint64_t operator()(const std::uint32_t* token, std::size_t length) {
        std::uint64_t mixed = length;
        for (std::size_t i = 0; i < length; ++i) mixed = (mixed ^ token[i]) * 0x9e3779b97f4a7c15;
        mixed ^= mixed >> 29;
        std::size_t slot = mixed & mask();
        for (; slots_[slot].token; slot = (slot + 1) & mask()) {
            const Slot& known = slots_[slot];
            if (known.mixed == mixed && known.length == length &&
                std::equal(token, token + length, known.token))
                return known.hash;
        }
        if (2 * ++held_ > slots_.size()) {
            slot = grow(mixed);
        }
        slots_[slot] = {token, length, mixed, digest(token, length)};
        return slots_[slot].hash;
    }

  private:
    struct Slot {
        const std::uint32_t* token = nullptr;
        std::size_t length = 0;
        std::uint64_t mixed = 0, hash = 0;
    };
    static constexpr std::size_t kMostSlots = std::size_t{1} << 20;
    std::size_t mask() const { return slots_.size() - 1; }

    // Twice the room, or a new start; returns the place for what has no slot yet.
    std::size_t grow(std::uint64_t mixed) {
        std::vector<Slot> old(std::min(2 * slots_.size(), kMostSlots));
        const bool forget = old.size() == slots_.size();
        old.swap(slots_);
        const auto place = [&](std::uint64_t bits) {
            std::size_t slot = bits & mask();
            while (slots_[slot].token) slot = (slot + 1) & mask();
            return slot;
        };
        if (forget)
            held_ = 1;
        else
            for (const Slot& known : old)
                if (known.token) slots_[place(known.mixed)] = known;
        return place(mixed);
    }
    // Of the token in UTF-8, in which a surrogate is a character like any other.
    std::uint64_t digest(const std::uint32_t* token, std::size_t length) {
        bytes_.clear();
        const auto add = [&](std::uint32_t bits) {
            bytes_.push_back(static_cast<std::uint8_t>(bits));
        };
        for (std::size_t i = 0; i < length; ++i) {
            const std::uint32_t c = token[i];
            if (c < 0x80) {
                add(c);
                continue;
            }
            if (c < 0x800) {
                add(0xc0 | c >> 6);
            } else {
                if (c < 0x10000) {
                    add(0xe0 | c >> 12);
                } else {
                    add(0xf0 | (c >> 18 & 7));
                    add(0x80 | (c >> 12 & 63));
                }
                add(0x80 | (c >> 6 & 63));
            }
            add(0x80 | (c & 63));
        }
        return Blake::digest(bytes_.data(), bytes_.size());
    }

    std::vector<Slot> slots_{std::vector<Slot>(4096)};
    std::size_t held_ = 0;
    std::vector<std::uint8_t> bytes_;
};

// Texts, and what their tokens are.
struct Tokens {
    const std::uint32_t* characters;
    const std::int64_t* starts;  // (n + 1)
    std::size_t n;
    // Whether a code point belongs to words, of which tokens are those of two characters or more;
    // null if every character is a token.
    const std::uint8_t* in_words;
    std::size_t n_in_words;        // beyond, none does
    const std::uint64_t* skipped;  // hashes of tokens that do not count, in order
    std::size_t n_skipped;
};

// Some consecutive texts are an item of the threads.
struct TextItems {
    static constexpr std::size_t size = 64;
    std::size_t n;
    std::size_t count() const { return (n + size - 1) / size; }
    std::size_t first(std::size_t item) const { return item * size; }
    std::size_t last(std::size_t item) const { return std::min(first(item) + size, n); }
};

// What items give, one after another.
template <class T>
std::vector<T> joined(const std::vector<std::vector<T>>& parts) {
    std::size_t size = 0;
    for (const auto& part : parts) size += part.size();
    std::vector<T> all;
    all.reserve(size);
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

// The hashes of all tokens, text after text; `counts` (n) are how many there are of each.
inline std::vector<std::uint64_t> token_hashes(const Tokens& texts, std::int64_t* counts,
                                               int n_threads) {
    const TextItems items{texts.n};
    std::vector<std::vector<std::uint64_t>> parts(items.count());
    std::vector<TokenHashes> known(static_cast<std::size_t>(std::max(n_threads, 1)));
    parallel_for(items.count(), n_threads, [&](std::size_t item, int thread) {
        TokenHashes& hash = known[static_cast<std::size_t>(thread)];
        std::vector<std::uint64_t>& hashes = parts[item];
        const auto add = [&](const std::uint32_t* token, const std::uint32_t* end) {
            const std::uint64_t value = hash(token, static_cast<std::size_t>(end - token));
            if (!std::binary_search(texts.skipped, texts.skipped + texts.n_skipped, value))
                hashes.push_back(value);
        };
        const auto in_word = [&](std::uint32_t c) {
            return c < texts.n_in_words && texts.in_words[c];
        };
        for (std::size_t i = items.first(item); i < items.last(item); ++i) {
            const std::size_t before = hashes.size();
            const std::uint32_t *at = texts.characters + texts.starts[i], *const end =
                                                                              texts.characters +
                                                                              texts.starts[i + 1];
            if (!texts.in_words)
                for (; at < end; ++at) add(at, at + 1);
            while (at < end) {
                const std::uint32_t* const word = at;
                while (at < end && in_word(*at)) ++at;
                if (at - word >= 2) add(word, at);
                at += at < end;
            }
            counts[i] = static_cast<std::int64_t>(hashes.size() - before);
        }
    });
    return joined(parts);
}

}  // namespace mercer
