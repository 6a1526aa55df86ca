// Columns of zeros and ones as bitmaps: their hot loops as plain functions on plain memory, a table
// per instruction-set level as in loops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "widths.hpp"

namespace mercer {

// Rows come in blocks of kBlockRows; the last one is filled up with zeros. A column is its words,
// row i the bit i % 64 of word i / 64.
constexpr std::size_t kBlockRows = 512;
constexpr std::size_t kBlockWords = kBlockRows / 64;
constexpr std::size_t kTileColumns = 4;  // of each side of a tile of products

// Two sets of columns, `stride` words from one to the next, over the same blocks.
struct BitPair {
    const std::uint64_t* left;
    const std::uint64_t* right;
    std::size_t stride, n_blocks;
    const std::uint32_t* weights;  // one per block; null: all are 1
};

// counts[i * step + j] += sum over blocks of the weight times the rows that columns i and j share,
// for kTileColumns columns on either side.
using BitTile = void(const BitPair& pair, std::uint64_t* counts, std::size_t step);
// The same for one pair of columns.
using BitCount = std::uint64_t(const BitPair& pair);

// Sets bit i where codes[i] is `wanted`, in whole blocks.
template <class Code>
using BitPack = void(const Code* codes, std::size_t n, Code wanted, std::uint64_t* words);

struct BitProducts {
    BitTile* tile;
    BitCount* one;
};

struct BitLoops {
    BitProducts products;
    BitProducts counted;  // for processors that count bits in vectors; null where not compiled
    template <class Code>
    using Pack = BitPack<Code>*;
    ByWidth<Pack> pack;
};

}  // namespace mercer
