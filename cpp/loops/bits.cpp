// Loops on bitmaps, compiled once per instruction-set level into a table and nothing else: the only
// symbol of this file.
#include "bits_loops.hpp"

#include <bit>
#include <type_traits>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)
#if defined(__GNUC__)
#define MERCER_INLINE inline __attribute__((always_inline))
#else
#define MERCER_INLINE inline
#endif

namespace mercer {
namespace {

// ---- products -----------------------------------------------------------------------------------

// How a processor counts the ones of two ANDed blocks: `Bits` is a part of a block, `Sum` what
// counts are added up in.
#if defined(__AVX512BW__)
struct Counting {
    using Bits = __m512i;
    using Sum = __m512i;
    static constexpr std::size_t parts = 1;
    MERCER_INLINE static Bits load(const std::uint64_t* words) { return _mm512_loadu_si512(words); }
    MERCER_INLINE static Sum zero() { return _mm512_setzero_si512(); }
    // Looks up the ones of every half byte.
    MERCER_INLINE static Sum shared(Bits a, Bits b) {
        const Bits table =
            _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        const Bits both = _mm512_and_si512(a, b), low = _mm512_set1_epi8(15);
        const Bits right = _mm512_and_si512(both, low);
        const Bits left = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
        return _mm512_sad_epu8(
            _mm512_add_epi8(_mm512_shuffle_epi8(table, right), _mm512_shuffle_epi8(table, left)),
            zero());
    }
    MERCER_INLINE static Sum add(Sum a, Sum b) { return _mm512_add_epi64(a, b); }
    MERCER_INLINE static Sum times(Sum a, std::uint32_t weight) {
        return _mm512_mul_epu32(a, _mm512_set1_epi64(weight));
    }
    MERCER_INLINE static std::uint64_t total(Sum sum) {
        return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sum));
    }
};
#elif defined(__AVX2__)
struct Counting {
    using Bits = __m256i;
    using Sum = __m256i;
    static constexpr std::size_t parts = 2;
    MERCER_INLINE static Bits load(const std::uint64_t* words) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
    }
    MERCER_INLINE static Sum zero() { return _mm256_setzero_si256(); }
    // Looks up the ones of every half byte.
    MERCER_INLINE static Sum shared(Bits a, Bits b) {
        const Bits table = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        const Bits both = _mm256_and_si256(a, b), low = _mm256_set1_epi8(15);
        const Bits right = _mm256_and_si256(both, low);
        const Bits left = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
        return _mm256_sad_epu8(
            _mm256_add_epi8(_mm256_shuffle_epi8(table, right), _mm256_shuffle_epi8(table, left)),
            zero());
    }
    MERCER_INLINE static Sum add(Sum a, Sum b) { return _mm256_add_epi64(a, b); }
    MERCER_INLINE static Sum times(Sum a, std::uint32_t weight) {
        return _mm256_mul_epu32(a, _mm256_set1_epi64x(weight));
    }
    MERCER_INLINE static std::uint64_t total(Sum sum) {
        std::uint64_t lane[4];
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(lane), sum);
        return lane[0] + lane[1] + lane[2] + lane[3];
    }
};
#else
struct Counting {
    using Bits = std::uint64_t;
    using Sum = std::uint64_t;
    static constexpr std::size_t parts = kBlockWords;
    MERCER_INLINE static Bits load(const std::uint64_t* words) { return *words; }
    MERCER_INLINE static Sum zero() { return 0; }
    MERCER_INLINE static Sum shared(Bits a, Bits b) {
        return static_cast<Sum>(std::popcount(a & b));
    }
    MERCER_INLINE static Sum add(Sum a, Sum b) { return a + b; }
    MERCER_INLINE static Sum times(Sum a, std::uint32_t weight) { return a * weight; }
    MERCER_INLINE static std::uint64_t total(Sum sum) { return sum; }
};
#endif

// Products of `size` by `size` columns, kept in registers while the blocks go by. A macro, for a
// function whose processor is another than the file's takes nothing in line from the rest of it.
#define MERCER_BIT_TILE(size, shared_of)                                                           \
    constexpr std::size_t part_words = kBlockWords / Counting::parts;                              \
    Counting::Sum sum[size][size];                                                                 \
    for (auto& row : sum)                                                                          \
        for (auto& entry : row) entry = Counting::zero();                                          \
    for (std::size_t b = 0; b < pair.n_blocks; ++b)                                                \
        for (std::size_t part = 0; part < Counting::parts; ++part) {                               \
            const std::size_t word = b * kBlockWords + part * part_words;                          \
            Counting::Bits left[size];                                                             \
            for (std::size_t i = 0; i < size; ++i)                                                 \
                left[i] = Counting::load(pair.left + i * pair.stride + word);                      \
            for (std::size_t j = 0; j < size; ++j) {                                               \
                const auto right = Counting::load(pair.right + j * pair.stride + word);            \
                for (std::size_t i = 0; i < size; ++i) {                                           \
                    auto count = shared_of(left[i], right);                                        \
                    if constexpr (weighted) count = Counting::times(count, pair.weights[b]);       \
                    sum[i][j] = Counting::add(sum[i][j], count);                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    for (std::size_t i = 0; i < size; ++i)                                                         \
        for (std::size_t j = 0; j < size; ++j) counts[i * step + j] += Counting::total(sum[i][j]);

template <std::size_t size, bool weighted>
void tile_of(const BitPair& pair, std::uint64_t* counts, std::size_t step) {
    MERCER_BIT_TILE(size, Counting::shared)
}

void tile(const BitPair& pair, std::uint64_t* counts, std::size_t step) {
    if (pair.weights)
        tile_of<kTileColumns, true>(pair, counts, step);
    else
        tile_of<kTileColumns, false>(pair, counts, step);
}

std::uint64_t one(const BitPair& pair) {
    std::uint64_t count = 0;
    if (pair.weights)
        tile_of<1, true>(pair, &count, 0);
    else
        tile_of<1, false>(pair, &count, 0);
    return count;
}

#if defined(__AVX512BW__) && defined(__GNUC__)
#define MERCER_COUNTS_BITS __attribute__((target("avx512vpopcntdq")))
#define MERCER_SHARED(a, b) _mm512_popcnt_epi64(_mm512_and_si512(a, b))

template <std::size_t size, bool weighted>
MERCER_COUNTS_BITS void counted_of(const BitPair& pair, std::uint64_t* counts, std::size_t step) {
    MERCER_BIT_TILE(size, MERCER_SHARED)
}

void counted_tile(const BitPair& pair, std::uint64_t* counts, std::size_t step) {
    if (pair.weights)
        counted_of<kTileColumns, true>(pair, counts, step);
    else
        counted_of<kTileColumns, false>(pair, counts, step);
}

std::uint64_t counted_one(const BitPair& pair) {
    std::uint64_t count = 0;
    if (pair.weights)
        counted_of<1, true>(pair, &count, 0);
    else
        counted_of<1, false>(pair, &count, 0);
    return count;
}
constexpr BitProducts counted = {counted_tile, counted_one};
#else
constexpr BitProducts counted = {nullptr, nullptr};
#endif

// ---- packing ------------------------------------------------------------------------------------

// Which of 64 codes are the wanted one.
template <class Code>
MERCER_INLINE std::uint64_t equal_bits(const Code* codes, Code wanted) {
#if defined(__AVX512BW__)
    if constexpr (sizeof(Code) == 1) {
        return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(codes),
                                      _mm512_set1_epi8(static_cast<char>(wanted)));
    } else if constexpr (sizeof(Code) == 2) {
        std::uint64_t bits = 0;
        for (int part = 0; part < 2; ++part)
            bits |= std::uint64_t{_mm512_cmpeq_epi16_mask(
                        _mm512_loadu_si512(codes + 32 * part),
                        _mm512_set1_epi16(static_cast<short>(wanted)))}
                    << 32 * part;
        return bits;
    } else {
        std::uint64_t bits = 0;
        for (int part = 0; part < 4; ++part)
            bits |=
                std::uint64_t{_mm512_cmpeq_epi32_mask(_mm512_loadu_si512(codes + 16 * part),
                                                      _mm512_set1_epi32(static_cast<int>(wanted)))}
                << 16 * part;
        return bits;
    }
#else
#if defined(__AVX2__)
    if constexpr (sizeof(Code) == 1) {
        const __m256i sought = _mm256_set1_epi8(static_cast<char>(wanted));
        std::uint64_t bits = 0;
        for (int part = 0; part < 2; ++part) {
            const auto* from = reinterpret_cast<const __m256i*>(codes + 32 * part);
            const __m256i equal = _mm256_cmpeq_epi8(_mm256_loadu_si256(from), sought);
            bits |= std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(equal))}
                    << 32 * part;
        }
        return bits;
    }
#endif
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 64; ++i) bits |= std::uint64_t{codes[i] == wanted} << i;
    return bits;
#endif
}

template <class Code>
void pack(const Code* codes, std::size_t n, Code wanted, std::uint64_t* words) {
    const std::size_t n_words = (n + kBlockRows - 1) / kBlockRows * kBlockWords;
    const std::size_t whole = n / 64;
    for (std::size_t w = 0; w < whole; ++w) words[w] = equal_bits<Code>(codes + 64 * w, wanted);
    for (std::size_t w = whole; w < n_words; ++w) words[w] = 0;
    for (std::size_t i = 64 * whole; i < n; ++i)
        words[whole] |= std::uint64_t{codes[i] == wanted} << (i - 64 * whole);
}

}  // namespace

extern const BitLoops MERCER_JOIN(bit_loops_, MERCER_LEVEL);
const BitLoops MERCER_JOIN(bit_loops_, MERCER_LEVEL) = {
    {tile, one}, counted, pack<std::uint8_t>, pack<std::uint16_t>, pack<std::uint32_t>,
};

}  // namespace mercer
