// Trees of cuts for the Python module, as bindings.cpp does it for the rest.
#include "arguments.hpp"
#include "growth.hpp"
#include "routing.hpp"

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace nb::literals;
using namespace mercer;

namespace {

template <class Numbers, Type type>
Array<type> copied(const Numbers& numbers, std::initializer_list<std::size_t> shape) {
    auto [result, out] = new_array<type>(shape);
    std::copy(numbers.begin(), numbers.end(), out);
    return result;
}

using Trees = nb::typed<nb::tuple, Array<Type::f32>, Doubles, Doubles, Integers, Integers, Integers,
                        Integers>;

Trees grow(Floats X, std::size_t leaf_size, double overlap, std::uint64_t key, std::uint64_t pivots,
           std::uint64_t weights, Integers numbers_, std::uint64_t node, bool divides_alike,
           Threads n_threads) {
    Arrays arrays;
    const Buffer& x = arrays.read(X, "X", 2);
    const Buffer& numbers = arrays.read(numbers_, "numbers", 1);
    const std::size_t n = x.extent(0), d = x.extent(1);
    if (leaf_size < 2) {
        const auto got = std::to_string(leaf_size);
        throw std::invalid_argument("leaf_size must be at least 2; got " + got + ".");
    }
    if (!(overlap >= 0.0 && overlap <= 0.25))
        throw std::invalid_argument("overlap must be from 0 to 0.25; got " +
                                    std::to_string(overlap) + ".");
    const GrowthSettings settings{leaf_size, overlap, key, pivots, weights, divides_alike};
    NumberedTrees all;
    {
        const Released released(arrays);
        std::vector<GrowingTree> trees;
        const auto* const number = numbers.data<const std::int64_t>();
        for (std::size_t t = 0; t < numbers.extent(0); ++t)
            trees.push_back({static_cast<std::uint64_t>(number[t]), node, nullptr});
        with_float(x.type(), [&](auto zero) {
            using T = decltype(zero);
            grow_trees(x.data<const T>(), n, d, settings, trees, n_threads);
        });
        for (GrowingTree& tree : trees) {
            all.add(*tree.root);
            tree.root.reset();
        }
    }
    const std::size_t cuts = all.low.size();
    return Trees(
        nb::make_tuple(copied<decltype(all.directions), Type::f32>(all.directions, {cuts, d}),
                       copied<decltype(all.low), Type::f64>(all.low, {cuts}),
                       copied<decltype(all.high), Type::f64>(all.high, {cuts}),
                       copied<decltype(all.children), Type::i64>(all.children, {cuts, 2}),
                       new_integers(all.roots), new_integers(all.order), new_integers(all.starts)));
}

using Reached = nb::typed<nb::tuple, Integers, Integers, Doubles>;

Reached route(Floats X, Array<Type::f32> directions_, Doubles low, Doubles high, Integers children_,
              Integers roots_, Threads n_threads) {
    Arrays arrays;
    const Buffer& x = arrays.read(X, "X", 2);
    const std::size_t n = x.extent(0), d = x.extent(1);
    const Buffer& directions = arrays.read(directions_, "directions", 2);
    const std::size_t cuts = directions.extent(0);
    directions.expect_shape({cuts, d});
    const Buffer& children = arrays.read(children_, "children", 2);
    children.expect_shape({cuts, 2});
    const Buffer& roots = arrays.read(roots_, "roots", 1);
    const std::size_t leaves = cuts + roots.extent(0);
    const CutTrees trees{d,
                         cuts,
                         leaves,
                         directions.data<const float>(),
                         arrays.numbers(low, "low", cuts),
                         arrays.numbers(high, "high", cuts),
                         children.data<const std::int64_t>(),
                         roots.data<const std::int64_t>(),
                         roots.extent(0)};
    // Every walk ends: a cut comes after its parent.
    const auto expect_node = [&](const Buffer& of, std::int64_t node, std::int64_t least) {
        const bool is_cut = node >= least && static_cast<std::size_t>(node) < cuts;
        const bool is_leaf = node < 0 && static_cast<std::size_t>(~node) < leaves;
        if (!is_cut && !is_leaf)
            of.fail("must be numbers of later cuts or ~leaf", std::to_string(node));
    };
    for (std::size_t i = 0; i < 2 * cuts; ++i)
        expect_node(children, trees.children[i], static_cast<std::int64_t>(i / 2) + 1);
    for (std::size_t t = 0; t < trees.trees; ++t) expect_node(roots, trees.roots[t], 0);
    Routes all;
    with_float(x.type(), [&](auto zero) {
        using T = decltype(zero);
        const Released released(arrays);
        all = routes(trees, x.data<const T>(), n, n_threads);
    });
    return Reached(
        nb::make_tuple(new_integers(all.rows), new_integers(all.leaves),
                       copied<decltype(all.shares), Type::f64>(all.shares, {all.shares.size()})));
}

}  // namespace

void add_partition(nb::module_& m) {
    m.def(
        "grow_trees", &grow, "X"_a, "leaf_size"_a, "overlap"_a, "key"_a, "pivots"_a, "weights"_a,
        "numbers"_a, "node"_a, "divides_alike"_a, "n_threads"_a,
        R"(Cut rows of X (n, d) in two, again and again, until a leaf has at most leaf_size of them.

There is a tree for each of ``numbers``, which with ``key`` and the slots ``pivots`` and
``weights`` fix its random numbers; ``node`` is the number of its root, where the nodes
below node i are 2 i and 2 i + 1. A cut lies at the middle of the projections to a
direction: the sum of 1000 rows of the node with random weights. Both sides are given the
share ``overlap`` of the rows to either side of it. Rows that no direction tells apart are
divided, or stay in one leaf without ``divides_alike``.

Returns directions (cuts, d), low and high (cuts,), children (cuts, 2) and roots, which
are numbers of cuts or ~leaf, and order and starts: leaf l has the rows
order[starts[l]:starts[l + 1]], which ascend. A ValueError where projections overflow.
The number of threads changes no bit.)");
    m.def(
        "route_rows", &route, "X"_a, "directions"_a, "low"_a, "high"_a, "children"_a, "roots"_a,
        "n_threads"_a,
        R"(The leaves that answer for rows of X (n, d): rows, leaves and shares, one of each for every
pair, leaf by leaf and row by row.

Trees are as ``grow_trees`` gives them. A row whose projection is at most low of a cut
goes left, at least high right, and in between to both, in shares that change linearly;
a row that has no projection goes to both in equal shares. Shares of a row sum to 1.
The number of threads changes no bit.)");
}
