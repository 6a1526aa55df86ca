// Trees of cuts that divide rows into leaves of bounded size, as maps/partition.py describes them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel.hpp"
#include "random.hpp"

namespace mercer {

// Sums in float64 whatever the numbers are, in the same order for fits and for predictions.
template <class T>
double projection(const T* row, const float* direction, std::size_t d) {
    std::array<double, 4> sums{};
    std::size_t j = 0;
    for (; j + 4 <= d; j += 4)
        for (std::size_t lane = 0; lane < 4; ++lane)
            sums[lane] +=
                static_cast<double>(row[j + lane]) * static_cast<double>(direction[j + lane]);
    for (; j < d; ++j) sums[0] += static_cast<double>(row[j]) * static_cast<double>(direction[j]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

struct GrowthSettings {
    std::size_t leaf_size;
    double overlap;
    std::uint64_t key;
    std::uint64_t pivots, weights;  // slots of random numbers
    bool divides_alike;             // else rows that no direction tells apart stay together
};

// A leaf with its rows, or a cut with two nodes below it.
struct GrownNode {
    std::vector<std::int64_t> rows;
    std::vector<float> direction;
    double low = 0, high = 0;
    std::unique_ptr<GrownNode> left, right;

    bool is_leaf() const { return !left; }
};

// Cuts one node after the other, in memory of one thread.
template <class T>
class NodeCutter {
  public:
    NodeCutter(const T* x, std::size_t d, const GrowthSettings& settings)
        : x_(x), d_(d), settings_(settings), sum_(d) {}

    // False where the node remains a leaf. `number` is that of the node in its tree, `tree` that of
    // the tree; its rows are `node.rows` of x.
    bool cut(GrownNode& node, std::uint64_t tree, std::uint64_t number) {
        const std::size_t n = node.rows.size();
        if (n <= settings_.leaf_size) return false;
        const std::uint64_t stream = tree << 32 | (number & 0xFFFFFFFFu);
        const double most =
            std::min((0.5 + settings_.overlap + kExcess) * as_double(n) + 1.0, as_double(n - 1));
        bool balanced = false;
        for (std::uint64_t draw = 0; draw < kDraws && !balanced; ++draw) {
            draw_direction(node, stream, draw);
            project(node);
            std::tie(node.low, node.high) = ends();
            const auto left = std::count_if(values_.begin(), values_.end(),
                                            [&](double v) { return v < node.high; });
            const auto right = std::count_if(values_.begin(), values_.end(),
                                             [&](double v) { return v > node.low; });
            balanced = static_cast<double>(std::max(left, right)) <= most;
        }
        if (!balanced && !settings_.divides_alike) {
            node.direction.clear();
            return false;
        }
        node.left = std::make_unique<GrownNode>();
        node.right = std::make_unique<GrownNode>();
        balanced ? divide(node) : divide_alike(node);
        std::vector<std::int64_t>().swap(node.rows);
        return true;
    }

  private:
    static constexpr std::size_t kSample = 1000;  // rows of a node that a direction is drawn from
    static constexpr std::uint64_t kDraws = 4;    // directions tried where many rows lie on the cut
    // Share of the rows that a side may have beyond its own unless all draws fail.
    static constexpr double kExcess = 0.1;
    // Width of a blend, in units of the spread: it has to outlast float32 rounding.
    static constexpr double kNarrowest = 1e-5;

    static double as_double(std::size_t n) { return static_cast<double>(n); }
    const T* row(const GrownNode& node, std::size_t i) const {
        return x_ + static_cast<std::size_t>(node.rows[i]) * d_;
    }

    // Of the covariance of the rows, as the weights of the sample sum to zero.
    void draw_direction(GrownNode& node, std::uint64_t stream, std::uint64_t draw) {
        std::array<std::uint64_t, kSample> places;
        std::array<double, kSample> weights;
        random_fill(
            settings_.key, settings_.pivots + 32 * draw, stream, kSample,
            [](std::uint64_t bits) { return bits; }, places.data());
        random_fill(settings_.key, settings_.weights + 32 * draw, stream, kSample,
                    to_open_unit_interval, weights.data());
        const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / kSample;
        std::fill(sum_.begin(), sum_.end(), 0.0);
        for (std::size_t i = 0; i < kSample; ++i) {
            const T* const sampled = row(node, places[i] % node.rows.size());
            const double weight = weights[i] - mean;
            for (std::size_t j = 0; j < d_; ++j)
                sum_[j] += weight * static_cast<double>(sampled[j]);
        }
        double length = std::sqrt(std::inner_product(sum_.begin(), sum_.end(), sum_.begin(), 0.0));
        if (!(length > 0 && length <= std::numeric_limits<double>::max())) {
            std::fill(sum_.begin(), sum_.end(), 1.0);
            length = std::sqrt(as_double(d_));
        }
        node.direction.resize(d_);
        for (std::size_t j = 0; j < d_; ++j)
            node.direction[j] = static_cast<float>(sum_[j] / length);
    }

    void project(const GrownNode& node) {
        const std::size_t n = node.rows.size();
        values_.resize(n);
        for (std::size_t i = 0; i < n; ++i)
            values_[i] = projection(row(node, i), node.direction.data(), d_);
    }

    // Between which projections both sides of a cut answer, around the median.
    std::pair<double, double> ends() {
        const std::size_t n = values_.size();
        sorted_ = values_;
        const auto [least, greatest] = std::minmax_element(sorted_.begin(), sorted_.end());
        const double range = *greatest - *least;
        // A number that has no order would lead the search for medians out of bounds.
        if (!std::isfinite(range) ||
            !std::all_of(values_.begin(), values_.end(), [](double v) { return std::isfinite(v); }))
            throw std::invalid_argument(
                "X is too large to be cut: projections overflow; rescale it.");
        const auto share = [n](double of) { return static_cast<std::size_t>(of * as_double(n)); };
        const std::array<std::size_t, 4> places{share(0.5 - settings_.overlap), n / 2 - 1, n / 2,
                                                share(0.5 + settings_.overlap)};
        std::array<double, 4> found;
        auto first = sorted_.begin();
        std::array<std::size_t, 4> turn{0, 1, 2, 3};
        std::sort(turn.begin(), turn.end(),
                  [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });
        for (const std::size_t which : turn) {
            const auto at = sorted_.begin() + static_cast<std::ptrdiff_t>(places[which]);
            std::nth_element(first, at, sorted_.end());
            found[which] = *at;
            first = at;
        }
        auto [low, below, above, high] = found;
        const double middle = below + (above - below) / 2;
        const double spread = range > 0 ? range : std::max(1.0, std::abs(middle));
        const double gap =
            std::nextafter(std::abs(middle), std::numeric_limits<double>::infinity()) -
            std::abs(middle);
        const double narrowest = std::max(kNarrowest * spread, 4 * gap);
        if (high - low < narrowest) {
            low = middle - narrowest / 2;
            high = middle + narrowest / 2;
        }
        return {low, high};
    }

    void divide(GrownNode& node) const {
        for (std::size_t i = 0; i < values_.size(); ++i) {
            if (values_[i] < node.high) node.left->rows.push_back(node.rows[i]);
            if (values_[i] > node.low) node.right->rows.push_back(node.rows[i]);
        }
        node.left->rows.shrink_to_fit();
        node.right->rows.shrink_to_fit();
    }

    // Each row on the cut is fitted on one side: those on the left fill up one half, evenly taken.
    // The left side answers for them: many leaves would if both did at every such cut.
    void divide_alike(GrownNode& node) const {
        const auto is_on_cut = [&](double v) { return v > node.low && v < node.high; };
        const auto first = static_cast<std::size_t>(
            std::count_if(values_.begin(), values_.end(), [&](double v) { return v <= node.low; }));
        const auto either =
            static_cast<std::size_t>(std::count_if(values_.begin(), values_.end(), is_on_cut));
        const std::size_t half = values_.size() / 2;
        const std::size_t wanted = half > first ? std::min(half - first, either) : 0;
        std::size_t met = 0;
        for (std::size_t i = 0; i < values_.size(); ++i) {
            bool goes_left = values_[i] <= node.low;
            if (is_on_cut(values_[i])) {
                goes_left = (met + 1) * wanted / either > met * wanted / either;
                ++met;
            }
            (goes_left ? node.left : node.right)->rows.push_back(node.rows[i]);
        }
        const double width = node.high - node.low;
        node.low = node.high;
        node.high += width;
    }

    const T* const x_;
    const std::size_t d_;
    const GrowthSettings settings_;
    std::vector<double> sum_, values_, sorted_;
};

// A tree, whose root has the number `node`.
struct GrowingTree {
    std::uint64_t number, node;
    std::unique_ptr<GrownNode> root;
};

// Grows a whole subtree of few rows from a copy of them, which stays in the cache.
template <class T>
class SubtreeGrower {
  public:
    static constexpr std::size_t kBytes = std::size_t{1} << 20;  // of a copy

    SubtreeGrower(const T* x, std::size_t d, const GrowthSettings& settings)
        : x_(x), d_(d), settings_(settings) {}

    void grow(GrownNode& root, std::uint64_t tree, std::uint64_t number) {
        const std::vector<std::int64_t> of_copy = root.rows;
        copy_.resize(of_copy.size() * d_);
        for (std::size_t i = 0; i < of_copy.size(); ++i)
            std::copy_n(x_ + static_cast<std::size_t>(of_copy[i]) * d_, d_, copy_.data() + i * d_);
        std::iota(root.rows.begin(), root.rows.end(), std::int64_t{0});
        NodeCutter<T> cutter(copy_.data(), d_, settings_);
        std::vector<std::pair<GrownNode*, std::uint64_t>> pending{{&root, number}};
        while (!pending.empty()) {
            const auto [node, of_node] = pending.back();
            pending.pop_back();
            if (cutter.cut(*node, tree, of_node)) {
                pending.emplace_back(node->left.get(), 2 * of_node);
                pending.emplace_back(node->right.get(), 2 * of_node + 1);
            } else {
                for (std::int64_t& row : node->rows) row = of_copy[static_cast<std::size_t>(row)];
            }
        }
    }

  private:
    const T* const x_;
    const std::size_t d_;
    const GrowthSettings settings_;
    std::vector<T> copy_;
};

// Level by level while nodes are large, then a subtree per thread. The number of threads changes
// no bit.
template <class T>
void grow_trees(const T* x, std::size_t n, std::size_t d, const GrowthSettings& settings,
                std::vector<GrowingTree>& trees, int n_threads) {
    struct Open {
        GrownNode* node;
        std::uint64_t tree, number;
    };
    std::vector<Open> level, small;
    const std::size_t few = SubtreeGrower<T>::kBytes / (sizeof(T) * std::max<std::size_t>(d, 1));
    const auto sort_in = [&](std::vector<Open>& large, Open open) {
        (open.node->rows.size() > few ? large : small).push_back(open);
    };
    for (GrowingTree& tree : trees) {
        tree.root = std::make_unique<GrownNode>();
        tree.root->rows.resize(n);
        std::iota(tree.root->rows.begin(), tree.root->rows.end(), std::int64_t{0});
        sort_in(level, {tree.root.get(), tree.number, tree.node});
    }
    while (!level.empty()) {
        parallel_for(level.size(), n_threads, [&](std::size_t item, int) {
            const Open& open = level[item];
            NodeCutter<T>(x, d, settings).cut(*open.node, open.tree, open.number);
        });
        std::vector<Open> next;
        for (const Open& open : level) {
            if (open.node->is_leaf()) continue;
            sort_in(next, {open.node->left.get(), open.tree, 2 * open.number});
            sort_in(next, {open.node->right.get(), open.tree, 2 * open.number + 1});
        }
        level.swap(next);
    }
    std::stable_sort(small.begin(), small.end(), [](const Open& a, const Open& b) {
        return a.node->rows.size() > b.node->rows.size();
    });
    parallel_for(small.size(), n_threads, [&](std::size_t item, int) {
        const Open& open = small[item];
        SubtreeGrower<T>(x, d, settings).grow(*open.node, open.tree, open.number);
    });
}

}  // namespace mercer
