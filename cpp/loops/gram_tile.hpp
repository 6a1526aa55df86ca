// Inner products of columns packed in panels. Included only by files compiled once per level.
#pragma once

#include "loops.hpp"
#include "panels.hpp"

namespace mercer {
namespace {

// Whole panels of neighbouring columns, `width` of them.
template <std::size_t width, class T>
void pack_whole(const GramColumns<T>& from, std::size_t depth, T* panel) {
    const T* row = from.numbers;
    for (std::size_t k = 0; k < depth; ++k, row += from.row_step, panel += width) {
        const T weight = from.weights ? static_cast<T>(from.weights[k]) : T(1);
        for (std::size_t i = 0; i < width; ++i) panel[i] = row[i] * weight;
    }
}

// Turns `count` columns, at most `width`, into `depth` groups of `width` numbers, each row times
// its weight if there are weights.
template <class T>
void pack_columns(const GramColumns<T>& from, std::size_t depth, std::size_t count,
                  std::size_t width, T* panel) {
    if (from.column_step == 1 && count == kLeft && width == kLeft)
        return pack_whole<kLeft>(from, depth, panel);
    if (from.column_step == 1 && count == kRight<T> && width == kRight<T>)
        return pack_whole<kRight<T>>(from, depth, panel);
    for (std::size_t k = 0; k < depth; ++k, panel += width) {
        const T* const row = from.numbers + k * from.row_step;
        const T weight = from.weights ? static_cast<T>(from.weights[k]) : T(1);
        for (std::size_t i = 0; i < count; ++i) panel[i] = row[i * from.column_step] * weight;
        for (std::size_t i = count; i < width; ++i) panel[i] = T(0);
    }
}

// totals (kLeft, kRight), whose rows are `step` apart, += left' * right
template <class T>
void gram_tile(const T* left, const T* right, std::size_t depth, T* totals, std::size_t step) {
    PanelSums<T> sums = {};
    accumulate(left, right, depth, sums,
               [](Vector<T> sum, Vector<T> l, Vector<T> r, std::size_t)
                   MERCER_INLINE_BODY { return sum + l * r; });
    for (auto& row : sums) {
        for (int v = 0; v < kRightVectors; ++v) {
            T* const at = totals + v * lanes<T>;
            store(at, load(at) + row[v]);
        }
        totals += step;
    }
}

template <class T>
constexpr GramLoops<T> grams = {kLeft, kRight<T>, pack_columns<T>, gram_tile<T>};

}  // namespace
}  // namespace mercer
