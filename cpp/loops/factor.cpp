// Loops of Cholesky factors, compiled once per instruction-set level with contraction of a*b+c
// allowed, into a table and nothing else: the only symbol of this file.
#include "factor_sides.hpp"
#include "factor_tile.hpp"

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {

extern const FactorLoops MERCER_JOIN(factor_loops_, MERCER_LEVEL);
const FactorLoops MERCER_JOIN(factor_loops_, MERCER_LEVEL) = {
    kStrip, kSides * MERCER_VECTOR_BYTES, factor, solve, subtract<double>, subtract<float>};

}  // namespace mercer
