// The part of check.cpp that is about trees of cuts.
#include "growth.hpp"
#include "random.hpp"
#include "routing.hpp"

#include <cmath>

using namespace mercer;

namespace {

template <class T>
NumberedTrees grown(const std::vector<T>& x, std::size_t d, std::size_t leaf_size, int n_threads) {
    std::vector<GrowingTree> trees;
    for (std::uint64_t number = 0; number < 3; ++number) trees.push_back({number, 1, nullptr});
    grow_trees(x.data(), x.size() / d, d, {leaf_size, 0.1, 7, 1, 2, true}, trees, n_threads);
    NumberedTrees all;
    for (GrowingTree& tree : trees) all.add(*tree.root);
    return all;
}

// That leaves are small, that threads change no bit, and that every row is answered for by leaves
// whose shares sum to one.
template <class T>
bool trees_are_right(std::size_t n, std::size_t d, std::size_t leaf_size, bool alike) {
    std::vector<T> x(n * d);
    random_fill(
        3, 2, 0, n * d,
        [&](std::uint64_t bits) {
            const double number = to_open_unit_interval(bits);
            return static_cast<T>(alike ? std::floor(2 * number) : number);
        },
        x.data());
    const NumberedTrees one = grown(x, d, leaf_size, 1), three = grown(x, d, leaf_size, 3);
    bool right = one.order == three.order && one.children == three.children &&
                 one.directions == three.directions && one.low == three.low;
    for (std::size_t leaf = 0; leaf + 1 < one.starts.size(); ++leaf) {
        const std::int64_t size = one.starts[leaf + 1] - one.starts[leaf];
        right = right && size > 0 && size <= static_cast<std::int64_t>(leaf_size);
    }
    const CutTrees trees{d,
                         one.low.size(),
                         one.starts.size() - 1,
                         one.directions.data(),
                         one.low.data(),
                         one.high.data(),
                         one.children.data(),
                         one.roots.data(),
                         one.roots.size()};
    const Routes reached = routes(trees, x.data(), n, 3);
    std::vector<double> sums(n);
    for (std::size_t i = 0; i < reached.rows.size(); ++i)
        sums[static_cast<std::size_t>(reached.rows[i])] += reached.shares[i];
    for (const double sum : sums) right = right && std::abs(sum - 1) <= 1e-12;
    return right && std::is_sorted(reached.leaves.begin(), reached.leaves.end());
}

}  // namespace

bool partitions_are_right() {
    return trees_are_right<float>(5000, 7, 40, false) &&
           trees_are_right<double>(5000, 3, 600, false) &&
           trees_are_right<float>(2000, 300, 40, false) &&  // more than one subtree
           trees_are_right<double>(900, 3, 7, true) && trees_are_right<float>(5, 1, 8, false);
}
