// Loops of weighted binning. Compiled once per instruction-set level, without contraction of
// a*b+c, into a table and nothing else: the only symbol of this file.
#include "simd.hpp"
#include "weighted_loops.hpp"

#define MERCER_JOIN_(a, b) a##b
#define MERCER_JOIN(a, b) MERCER_JOIN_(a, b)

namespace mercer {
namespace {

using Numbers = Vector<double>;

// g of each lane's position within its bin.
MERCER_INLINE Numbers weights(Numbers x, Numbers inverse_width, Numbers shift, const Window& g) {
    Numbers v = x * inverse_width - shift;
    v = larger(v, broadcast(-0x1p31));
    v = smaller(v, broadcast(0x1p31 - 1.0));
    const Numbers s = v - floor(v);
    const Numbers to_edge = smaller(s, broadcast(1.0) - s) * broadcast(g.per_taper);
    const Numbers u = smaller(to_edge, broadcast(0.5)), square = u * u;
    Numbers sum = broadcast(g.sine[7]);
    for (int k = 6; k >= 0; --k) sum = sum * square + broadcast(g.sine[k]);
    return sum * u;
}

// Products may leave the range of float only where weights are multiplied by the thousand.
MERCER_INLINE void store_floats(float* out, Numbers v) {
    double lane[lanes<double>];
    store(lane, smaller(v, broadcast(0x1.fffffep127)));
    for (int i = 0; i < lanes<double>; ++i) out[i] = static_cast<float>(lane[i]);
}

void weigh_tile(const double* tile, std::size_t rows, std::size_t d, const double* inverse_widths,
                const double* shifts, const Window& window, double scale, float* out) {
    constexpr std::size_t step = lanes<double>;
    for (std::size_t i = 0; i < rows; i += step) {
        Numbers product = broadcast(scale);
        for (std::size_t j = 0; j < d; ++j)
            product = product * weights(load(tile + j * kWeighedRows + i),
                                        broadcast(inverse_widths[j]), broadcast(shifts[j]), window);
        float lane[step];
        store_floats(lane, product);
        for (std::size_t l = 0; l < step && i + l < rows; ++l) out[i + l] = lane[l];
    }
}

constexpr std::size_t kLaneSteps = kWeighedGrids / lanes<double>;

void weigh_zeros(WindowGroup* groups, std::size_t d, const Window& window, double scale,
                 double* products) {
    for (std::size_t s = 0; s < kLaneSteps; ++s) {
        const std::size_t at = s * lanes<double>;
        Numbers product = broadcast(scale);
        for (std::size_t j = 0; j < d; ++j) {
            WindowGroup& group = groups[j];
            const Numbers weight = weights(broadcast(0.0), load(group.inverse_width + at),
                                           load(group.shift + at), window);
            product = product * weight;
            store(group.at_zero + at, broadcast(1.0) / weight);
        }
        store(products + at, product);
    }
}

template <class T, class Index>
void weigh_sparse(const T* values, const Index* inputs, const Index* row_starts, std::size_t n_rows,
                  const WindowGroup* groups, const Window& window, const double* products,
                  float* out, std::size_t stride) {
    for (std::size_t i = 0; i < n_rows; ++i) {
        float lane[kWeighedGrids];
        for (std::size_t s = 0; s < kLaneSteps; ++s) {
            const std::size_t at = s * lanes<double>;
            Numbers product = load(products + at);
            for (Index e = row_starts[i]; e < row_starts[i + 1]; ++e) {
                const WindowGroup& group = groups[inputs[e]];
                product = product *
                          (weights(broadcast(static_cast<double>(values[e])),
                                   load(group.inverse_width + at), load(group.shift + at), window) *
                           load(group.at_zero + at));
            }
            store_floats(lane + at, product);
        }
        for (std::size_t g = 0; g < kWeighedGrids; ++g) out[g * stride + i] = lane[g];
    }
}

template <class Code, int n_grids, bool single, class T>
MERCER_INLINE void gather_rows(const WeightedPass& pass, const T* const* tables,
                               std::size_t table_step, std::size_t rows, T* sums,
                               std::size_t step) {
    for (std::size_t i = 0; i < rows; ++i) {
        T value[n_grids];
        const T* bin[n_grids];
        for (int g = 0; g < n_grids; ++g) {
            const std::size_t code = static_cast<const Code*>(pass.codes[g])[i];
            const bool known = code < pass.n_bins[g];
            value[g] = known ? static_cast<T>(pass.values[g][i]) : T(0);
            bin[g] = tables[g] + (known ? code : 0) * table_step;
        }
        T* to = sums + i * step;
        for (std::size_t q = 0; q < (single ? 1 : pass.width); ++q) {
            T sum = value[0] * bin[0][q];
            for (int g = 1; g < n_grids; ++g) sum += value[g] * bin[g][q];
            to[q] += sum;
        }
    }
}

template <class Code, int n_grids, bool single, int power, class T>
MERCER_INLINE void scatter_rows(const WeightedPass& pass, double* const* tables, std::size_t rows,
                                const T* numbers, std::size_t step) {
    const std::size_t width = single ? 1 : pass.width;
    for (std::size_t i = 0; i < rows; ++i) {
        const T* from = numbers + i * step;
        for (int g = 0; g < n_grids; ++g) {
            const std::size_t code = static_cast<const Code*>(pass.codes[g])[i];
            const bool known = code < pass.n_bins[g];
            const double entry = power == 0 ? 1.0 : static_cast<double>(pass.values[g][i]);
            const double value = known ? (power == 2 ? entry * entry : entry) : 0.0;
            double* bin = tables[g] + (known ? code : 0) * width;
            for (std::size_t q = 0; q < width; ++q) bin[q] += value * static_cast<double>(from[q]);
        }
    }
}

template <class F>
MERCER_INLINE void specialise(const WeightedPass& pass, bool single, F f) {
    const auto with_grids = [&](auto n_grids) {
        single ? f(n_grids, Constant<1>()) : f(n_grids, Constant<0>());
    };
    pass.n_grids == kWeightedGrids ? with_grids(Constant<static_cast<int>(kWeightedGrids)>())
                                   : with_grids(Constant<1>());
}

template <class Code, class T>
void gather(const WeightedPass& pass, const T* const* tables, std::size_t table_step,
            std::size_t rows, T* sums, std::size_t step) {
    specialise(pass, pass.width == 1, [&](auto n_grids, auto single) {
        gather_rows<Code, n_grids(), single() != 0>(pass, tables, table_step, rows, sums, step);
    });
}

template <class Code, class T>
void scatter(const WeightedPass& pass, double* const* tables, std::size_t rows, const T* numbers,
             std::size_t step, int power) {
    specialise(pass, pass.width == 1, [&](auto n_grids, auto single) {
        if (power == 0)
            scatter_rows<Code, n_grids(), single() != 0, 0>(pass, tables, rows, numbers, step);
        else if (power == 1)
            scatter_rows<Code, n_grids(), single() != 0, 1>(pass, tables, rows, numbers, step);
        else
            scatter_rows<Code, n_grids(), single() != 0, 2>(pass, tables, rows, numbers, step);
    });
}

template <class Code>
constexpr WeightedSumLoops coded = {gather<Code, float>, gather<Code, double>, scatter<Code, float>,
                                    scatter<Code, double>};

}  // namespace

extern const WeightedLoops MERCER_JOIN(weighted_loops_, MERCER_LEVEL);
const WeightedLoops MERCER_JOIN(weighted_loops_, MERCER_LEVEL) = {
    weigh_tile,
    weigh_zeros,
    weigh_sparse<float, std::int32_t>,
    weigh_sparse<float, std::int64_t>,
    weigh_sparse<double, std::int32_t>,
    weigh_sparse<double, std::int64_t>,
    coded<std::uint8_t>,
    coded<std::uint16_t>,
    coded<std::uint32_t>,
};

}  // namespace mercer
