// Dense loops, compiled once per instruction-set level with contraction of a*b+c allowed, into a
// table and nothing else: the only symbol of this file.
#include "cosine_tile.hpp"
#include "distance_tile.hpp"
#include "gram_tile.hpp"
#include "loops.hpp"

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

template <class T>
constexpr CosineLoops<T> cosines = {kLeft,          kRight<T>,     pack_scaled<T>,
                                    cosine_tile<T>, cosine_row<T>, pairs_row<T>};

}  // namespace

extern const DenseLoops MERCER_JOIN(dense_loops_, MERCER_LEVEL);
const DenseLoops MERCER_JOIN(dense_loops_, MERCER_LEVEL) = {
    cosines<float>, cosines<double>,     grams<float>,
    grams<double>,  distance_sum<float>, distance_sum<double>};

}  // namespace mercer
