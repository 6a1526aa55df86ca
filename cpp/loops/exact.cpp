// Loops whose results must not depend on the instruction set. Compiled once per level, without
// contraction of a*b+c, into a table and nothing else: the only symbol of this file.
#include "gather.hpp"
#include "hashing.hpp"
#include "hashing_tile.hpp"
#include "loops.hpp"

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

template <class T>
constexpr BinningLoops<T> binning = {fill_tile<T>,
                                     hash_tile<T>,
                                     find_cells<T>,
                                     hash_columns<T, std::uint8_t>,
                                     hash_columns<T, std::uint16_t>,
                                     hash_columns<T, std::uint32_t>,
                                     hash_sparse<T, std::int32_t>,
                                     hash_sparse<T, std::int64_t>};
template <class Code>
constexpr CodeLoops<Code> coded = {
    fold_keys<Code>,
    find_home<Code>,
    number_cells<Code>,
    {gather<Code, float>, gather<Code, double>, scatter<Code, float>, scatter<Code, double>}};

}  // namespace

extern const ExactLoops MERCER_JOIN(exact_loops_, MERCER_LEVEL);
const ExactLoops MERCER_JOIN(exact_loops_, MERCER_LEVEL) = {
    hash_row,
    binning<float>,
    binning<double>,
    coded<std::uint8_t>,
    coded<std::uint16_t>,
    coded<std::uint32_t>,
};

}  // namespace mercer
