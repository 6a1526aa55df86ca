// Walsh-Hadamard transforms of large arrays in place, and Fastfood features, in pieces that stay in
// the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hadamard_loops.hpp"
#include "isa.hpp"
#include "parallel.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const HadamardTable hadamard_loops_v2, hadamard_loops_v3, hadamard_loops_v4;
inline const HadamardTable* const hadamard_tables[] = {&hadamard_loops_v2, &hadamard_loops_v3,
                                                       &hadamard_loops_v4};
#else
extern const HadamardTable hadamard_loops_baseline;
inline const HadamardTable* const hadamard_tables[] = {&hadamard_loops_baseline};
#endif

template <class T>
const HadamardLoops<T>& hadamard_loops() {
    static const HadamardTable& chosen = *hadamard_tables[choose_level()];
    if constexpr (sizeof(T) == 4)
        return chosen.f32;
    else
        return chosen.f64;
}

// Room for numbers that starts at a cache line.
template <class T>
class Aligned {
  public:
    explicit Aligned(std::size_t size) : numbers_(new T[size + 64 / sizeof(T)]) {
        void* start = numbers_.get();
        std::size_t space = (size + 64 / sizeof(T)) * sizeof(T);
        data_ = static_cast<T*>(std::align(64, size * sizeof(T), start, space));
    }
    T* data() { return data_; }

  private:
    std::unique_ptr<T[]> numbers_;
    T* data_;
};

// One room per thread, taken when the thread first asks.
template <class T>
class Rooms {
  public:
    Rooms(int n_threads, std::size_t size)
        : rooms_(static_cast<std::size_t>(std::max(n_threads, 1))), size_(size) {}
    T* operator[](int thread) {
        auto& room = rooms_[static_cast<std::size_t>(thread)];
        if (!room) room = std::make_unique<Aligned<T>>(size_);
        return room->data();
    }

  private:
    std::vector<std::unique_ptr<Aligned<T>>> rooms_;
    std::size_t size_;
};

constexpr std::size_t kHadamardRow = std::size_t{1} << 15;    // bytes of a row transformed at once
constexpr std::size_t kHadamardRows = std::size_t{1} << 10;   // rows transformed at once
constexpr std::size_t kHadamardPatch = std::size_t{1} << 18;  // bytes of them, at most
constexpr std::size_t kHadamardStrip = 256;                   // bytes of each, at least

template <class T>
void hadamard_columns(T* a, std::size_t length, std::size_t m, int n_threads);

// Each of the m rows of a (m, length), length a power of two, is multiplied by H. A row that is too
// long for the caches is transformed piece by piece and then across the pieces.
template <class T>
void hadamard(T* a, std::size_t m, std::size_t length, int n_threads) {
    if (m * length < 20000) n_threads = 1;
    const std::size_t piece = std::min(length, kHadamardRow / sizeof(T));
    const std::size_t count = m * (length / piece);
    const std::size_t batch =
        std::max<std::size_t>(1, 65536 / piece);  // numbers handed out at once
    parallel_for((count + batch - 1) / batch, n_threads, [&](std::size_t b, int) {
        for (std::size_t i = b * batch; i < std::min((b + 1) * batch, count); ++i)
            hadamard_loops<T>().row(a + i * piece, piece);
    });
    if (piece < length)
        for (std::size_t i = 0; i < m; ++i)
            hadamard_columns(a + i * length, length / piece, piece, n_threads);
}

// Each of the m columns of a (length, m), length a power of two, is multiplied by H: blocks of rows
// first, then across the blocks. Rows that do not fill a vector make small blocks.
template <class T>
void hadamard_columns(T* a, std::size_t length, std::size_t m, int n_threads) {
    if (length == 1 || m == 0) return;
    if (m == 1) return hadamard(a, 1, length, n_threads);
    if (m * length < 20000) n_threads = 1;
    const HadamardLoops<T>& loops = hadamard_loops<T>();
    const std::size_t rows = std::min(length, m < loops.lanes ? loops.lanes : kHadamardRows);
    const std::size_t strip = std::max(kHadamardStrip, kHadamardPatch / rows) / sizeof(T);
    const std::size_t n_strips = (m + strip - 1) / strip;
    Rooms<T> rooms(n_threads, rows * strip);
    parallel_for(length / rows * n_strips, n_threads, [&](std::size_t item, int thread) {
        const std::size_t start = item % n_strips * strip;
        loops.columns(a + item / n_strips * rows * m + start, rows, m, std::min(strip, m - start),
                      rooms[thread]);
    });
    hadamard_columns(a, length / rows, rows * m, n_threads);
}

// Cosines, or pairs of cosine and sine, of the projections that blocks of Fastfood make of points.
template <class T>
struct Fastfood {
    const T* points;             // (n, d)
    const T* factors;            // (blocks, d)
    const std::uint32_t* order;  // (blocks, length)
    const T* gains;              // (blocks, length)
    const T* lengths;            // (m)
    const T* phases;             // (m), or null for pairs
    std::size_t n, d, length, m;
    T scale;
    T* out;  // (n, m), or (n, 2 m) for pairs

    FastfoodBlock<T> block(std::size_t b) const {
        return {factors + b * d,
                order + b * length,
                gains + b * length,
                lengths + b * length,
                d,
                length,
                std::min(length, m - b * length)};
    }
};

template <class T>
void fastfood(const Fastfood<T>& work, int n_threads) {
    if (work.n == 0 || work.m == 0) return;
    const HadamardLoops<T>& loops = hadamard_loops<T>();
    const std::size_t group = loops.lanes, length = work.length, m = work.m;
    const std::size_t n_tiles = (work.n + group - 1) / group;
    const std::size_t n_blocks = (m + length - 1) / length;
    if (work.n * m < 5000) n_threads = 1;
    // A tile is packed once for all blocks, unless there are too few tiles for the threads.
    const auto threads = static_cast<std::size_t>(std::max(n_threads, 1));
    const std::size_t shares = n_tiles < 4 * threads && threads > 1 ? n_blocks : 1;
    Rooms<T> rooms(n_threads, (work.d + 3 * length) * group);
    parallel_for(n_tiles * shares, n_threads, [&](std::size_t item, int thread) {
        const std::size_t first = item / shares * group, share = item % shares;
        const std::size_t rows = std::min(group, work.n - first);
        T* tile = rooms[thread];
        T* room = tile + work.d * group;
        T* projections = room + 2 * length * group;
        loops.pack(work.points + first * work.d, rows, work.d, tile);
        for (std::size_t b = share; b < n_blocks; b += shares) {
            const FastfoodBlock<T> block = work.block(b);
            loops.fastfood(tile, rows, block, projections, length, room);
            for (std::size_t i = 0; i < rows; ++i) {
                const T* from = projections + i * length;
                const std::size_t at = (first + i) * m + b * length;
                if (work.phases)
                    cosine_loops<T>().row(from, work.phases + b * length, block.columns, work.scale,
                                          work.out + at);
                else
                    cosine_loops<T>().pairs_row(from, block.columns, work.scale, work.out + 2 * at);
            }
        }
    });
}

}  // namespace mercer
