// Bare loops for limits.py: as much arithmetic or as many accesses to near memory as some work of
// mercer's needs, and nothing else.
#include <cstddef>
#include <cstdint>

#include "cosine_tile.hpp"
#include "elementary.hpp"
#include "hashing.hpp"

using namespace mercer;

namespace {

constexpr std::size_t kNear = 4096;  // bytes that stay in the nearest cache

// Makes the compiler have a number, in a register of its own, without doing anything to it.
template <class V>
void have(V& number) {
    __asm__ volatile("" : "+v"(number));
}

template <class T>
void multiply_add(std::size_t count) {
    constexpr std::size_t chains = 12;  // as many sums as hide how long each step takes
    Vector<T> sum[chains] = {}, x = broadcast(T(0.5)), y = broadcast(T(1));
    have(x), have(y);
    for (auto& one : sum) have(one);
    for (std::size_t i = 0; i < count; i += chains * lanes<T>)
        for (auto& one : sum) one = one * x + y;
    for (auto& one : sum) have(one);
}

// f of numbers that are near, in some vectors side by side.
template <class T, class F>
void evaluate(std::size_t count, F f) {
    constexpr std::size_t side = 4, n = kNear / sizeof(T);
    alignas(64) static T from[n], to[n];
    for (std::size_t i = 0; i < count; i += side * lanes<T>)
        for (std::size_t v = 0; v < side; ++v) {
            const std::size_t at = (i + v * lanes<T>) % n;
            store(to + at, f(load(from + at)));
        }
}

// Reads a code and its entry of a table, `vectors` Vs, for each of `count` pairs of a row and a
// grid; adds to the entry, if `adds`.
template <class V, bool adds>
void visit(std::size_t count, std::size_t vectors, const std::uint16_t* codes, V* table) {
    V one = {};
    have(one);
    for (std::size_t i = 0; i < count; ++i) {
        V* const entry = table + codes[i] * vectors;
        for (std::size_t v = 0; v < vectors; ++v) {
            V number = entry[v];
            if constexpr (adds) number = number + one;
            have(number);
            if constexpr (adds) entry[v] = number;
        }
    }
}

}  // namespace

extern "C" {
int vector_bytes() {
    return MERCER_VECTOR_BYTES;
}

void multiply_add_f32(std::size_t count) {
    multiply_add<float>(count);
}
void multiply_add_f64(std::size_t count) {
    multiply_add<double>(count);
}

void decays_f32(std::size_t count) {
    evaluate<float>(count, [](Vector<float> x) { return decay<float>(x); });
}
void decays_f64(std::size_t count) {
    evaluate<double>(count, [](Vector<double> x) { return decay<double>(x); });
}
void cosines_f32(std::size_t count) {
    evaluate<float>(count, [](Vector<float> x) { return cosine_of(half_turns<float>(x)); });
}

// A code of float32 of every input and what it adds to both halves of a key, unchecked.
void codes_f32(std::size_t count, std::size_t d) {
    alignas(64) static float x[kNear / 4];
    alignas(64) static std::uint32_t keys[kNear / 4];
    Vector<float> width = broadcast(0.5f), shift = broadcast(0.1f), magic = broadcast(0x1.8p23f);
    Halves low = broadcast(77u), high = broadcast(78u);
    have(width), have(shift), have(magic), have(low), have(high);
    for (std::size_t i = 0; i < count; i += lanes<float>) {
        Halves key[2] = {low, high};
        for (std::size_t j = 0; j < d; ++j) {
            const auto at = (i * d + j * lanes<float>) % (kNear / 4);
            const Halves code = reinterpret<Halves>(load(x + at) * width - shift + magic);
            key[0] += code * low;
            key[1] += code * high;
        }
        store(keys + i % (kNear / 4), mix_halves(key[0], key[1], broadcast(kMixer)));
    }
}

void read_f32(std::size_t count, std::size_t, const std::uint16_t* codes, float* table) {
    visit<float, false>(count, 1, codes, table);
}
void read_vectors(std::size_t count, std::size_t vectors, const std::uint16_t* codes,
                  Vector<float>* table) {
    visit<Vector<float>, false>(count, vectors, codes, table);
}
void add_f64(std::size_t count, std::size_t, const std::uint16_t* codes, double* table) {
    visit<double, true>(count, 1, codes, table);
}
void add_vectors(std::size_t count, std::size_t vectors, const std::uint16_t* codes,
                 Vector<double>* table) {
    visit<Vector<double>, true>(count, vectors, codes, table);
}
}
