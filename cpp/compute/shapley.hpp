// Shapley values of sums of products over players, row by row on threads.
#pragma once

#include <cstddef>
#include <vector>

#include "isa.hpp"
#include "parallel.hpp"
#include "shapley_loops.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const AllShapleyLoops shapley_loops_v2, shapley_loops_v3, shapley_loops_v4;
inline const AllShapleyLoops* const shapley_tables[] = {&shapley_loops_v2, &shapley_loops_v3,
                                                        &shapley_loops_v4};
#else
extern const AllShapleyLoops shapley_loops_baseline;
inline const AllShapleyLoops* const shapley_tables[] = {&shapley_loops_baseline};
#endif

template <class T>
const ShapleyLoops<T>& shapley_loops() {
    static const AllShapleyLoops& chosen = *shapley_tables[choose_level()];
    if constexpr (sizeof(T) == 4)
        return chosen.f32;
    else
        return chosen.f64;
}

// Values of all rows, or interactions, which take the place of n_players + 1 values. `row` is the
// first one; the factors of a player are those of n_rows rows.
template <class T>
void shapley(const ShapleyRow<T>& row, std::size_t n_rows, bool interactions, double* out,
             int n_threads) {
    const ShapleyLoops<T>& loops = shapley_loops<T>();
    const std::size_t d = row.n_players;
    const std::size_t step = (interactions ? d * d : d + 1) * row.n_outputs;
    std::vector<std::vector<std::byte>> rooms(static_cast<std::size_t>(n_threads));
    parallel_for(n_rows, n_threads, [&](std::size_t item, int thread) {
        auto& room = rooms[static_cast<std::size_t>(thread)];
        room.resize(loops.room(d, row.n_outputs, row.is_complex));
        ShapleyRow<T> own = row;
        own.factors += item * row.n_centres;
        (interactions ? loops.interactions : loops.values)(own, room.data(), out + item * step);
    });
}

}  // namespace mercer
