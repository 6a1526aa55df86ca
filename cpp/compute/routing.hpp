// Which leaves of trees of cuts answer for rows, and in what shares.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "growth.hpp"
#include "parallel.hpp"

namespace mercer {

// Cuts numbered tree by tree, each before those below it and left before right; so are leaves.
class NumberedTrees {
  public:
    std::vector<float> directions;
    std::vector<double> low, high;
    std::vector<std::int64_t> children, roots, order, starts{0};

    void add(GrownNode& root) {
        struct Pending {
            GrownNode* node;
            std::int64_t place;  // in children, or -1
        };
        std::vector<Pending> pending{{&root, -1}};
        while (!pending.empty()) {
            const auto [node, place] = pending.back();
            pending.pop_back();
            const auto number = node->is_leaf() ? add_leaf(*node) : add_cut(*node);
            if (place < 0)
                roots.push_back(number);
            else
                children[static_cast<std::size_t>(place)] = number;
            if (node->is_leaf()) continue;
            pending.push_back({node->right.get(), 2 * number + 1});
            pending.push_back({node->left.get(), 2 * number});
        }
    }

  private:
    std::int64_t add_leaf(GrownNode& leaf) {
        order.insert(order.end(), leaf.rows.begin(), leaf.rows.end());
        std::vector<std::int64_t>().swap(leaf.rows);
        starts.push_back(static_cast<std::int64_t>(order.size()));
        return -static_cast<std::int64_t>(starts.size() - 1);
    }
    std::int64_t add_cut(const GrownNode& cut) {
        directions.insert(directions.end(), cut.direction.begin(), cut.direction.end());
        low.push_back(cut.low);
        high.push_back(cut.high);
        children.insert(children.end(), 2, 0);
        return static_cast<std::int64_t>(low.size() - 1);
    }
};

// Several trees: a cut compares the projection of a row with two numbers. Children and roots are
// numbers of cuts, each larger than that of its parent, or ~leaf.
struct CutTrees {
    std::size_t d, cuts, leaves;
    const float* directions;       // (cuts, d)
    const double *low, *high;      // (cuts)
    const std::int64_t* children;  // (cuts, 2)
    const std::int64_t* roots;     // (trees)
    std::size_t trees;
};

// Row by row of one leaf, and leaf by leaf.
struct Routes {
    std::vector<std::int64_t> rows, leaves;
    std::vector<double> shares;
};

class RowRouter {
  public:
    RowRouter(const CutTrees& trees) : trees_(trees) {}

    // Calls reached(leaf, share) for every leaf of a row.
    template <class T, class F>
    void route(const T* row, F reached) {
        for (std::size_t t = 0; t < trees_.trees; ++t) {
            pending_.assign(1, {trees_.roots[t], 1.0 / static_cast<double>(trees_.trees)});
            while (!pending_.empty()) {
                const auto [node, share] = pending_.back();
                pending_.pop_back();
                if (node < 0) {
                    reached(~node, share);
                    continue;
                }
                const auto cut = static_cast<std::size_t>(node);
                const double low = trees_.low[cut], high = trees_.high[cut];
                const double value = projection(row, trees_.directions + cut * trees_.d, trees_.d);
                // A row too large to be projected goes to both sides.
                if (!(value >= high)) {
                    const double left = std::isnan(value) ? 0.5
                                        : value <= low    ? 1.0
                                                          : (high - value) / (high - low);
                    pending_.push_back({trees_.children[2 * cut], share * left});
                    if (value <= low) continue;
                    pending_.push_back({trees_.children[2 * cut + 1], share * (1.0 - left)});
                } else {
                    pending_.push_back({trees_.children[2 * cut + 1], share});
                }
            }
        }
    }

  private:
    struct Pending {
        std::int64_t node;
        double share;
    };
    const CutTrees& trees_;
    std::vector<Pending> pending_;
};

template <class T>
Routes routes(const CutTrees& trees, const T* x, std::size_t n, int n_threads) {
    constexpr std::size_t step = 1024;  // rows of an item
    const std::size_t items = (n + step - 1) / step;
    std::vector<Routes> parts(items);
    parallel_for(items, items > 1 ? n_threads : 1, [&](std::size_t item, int) {
        RowRouter router(trees);
        Routes& part = parts[item];
        for (std::size_t i = item * step; i < std::min(n, (item + 1) * step); ++i)
            router.route(x + i * trees.d, [&](std::int64_t leaf, double share) {
                part.rows.push_back(static_cast<std::int64_t>(i));
                part.leaves.push_back(leaf);
                part.shares.push_back(share);
            });
    });
    std::vector<std::size_t> places(trees.leaves + 1);
    for (const Routes& part : parts)
        for (const std::int64_t leaf : part.leaves) ++places[static_cast<std::size_t>(leaf) + 1];
    std::partial_sum(places.begin(), places.end(), places.begin());
    Routes all;
    all.rows.resize(places.back());
    all.leaves.resize(places.back());
    all.shares.resize(places.back());
    for (Routes& part : parts) {
        for (std::size_t i = 0; i < part.rows.size(); ++i) {
            const std::size_t place = places[static_cast<std::size_t>(part.leaves[i])]++;
            all.rows[place] = part.rows[i];
            all.leaves[place] = part.leaves[i];
            all.shares[place] = part.shares[i];
        }
        part = Routes();
    }
    return all;
}

}  // namespace mercer
