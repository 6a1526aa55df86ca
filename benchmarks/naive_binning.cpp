// Random binning as a plain port of the paper's algorithm: rows outside, a division per input, a
// 64-bit hash, one open-addressing table per grid. What benchmarks/binning.py compares with.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

struct Table {
    std::vector<std::uint64_t> keys = std::vector<std::uint64_t>(4096);
    std::vector<std::uint32_t> numbers = std::vector<std::uint32_t>(4096, UINT32_MAX);
    std::uint32_t count = 0;

    std::uint32_t number(std::uint64_t key) {
        std::size_t at = find(key);
        if (numbers[at] == UINT32_MAX) {
            if (2 * (count + 1) > keys.size()) {
                grow();
                at = find(key);
            }
            keys[at] = key;
            numbers[at] = count++;
        }
        return numbers[at];
    }
    std::size_t find(std::uint64_t key) const {
        std::size_t at = (key >> 32) & (keys.size() - 1);
        while (numbers[at] != UINT32_MAX && keys[at] != key) at = (at + 1) & (keys.size() - 1);
        return at;
    }
    void grow() {
        const auto old_keys = keys;
        const auto old_numbers = numbers;
        keys.assign(4 * keys.size(), 0);
        numbers.assign(keys.size(), UINT32_MAX);
        for (std::size_t i = 0; i < old_keys.size(); ++i)
            if (old_numbers[i] != UINT32_MAX) {
                const std::size_t at = find(old_keys[i]);
                keys[at] = old_keys[i];
                numbers[at] = old_numbers[i];
            }
    }
};

}  // namespace

extern "C" void naive_codes(const float* X, std::size_t n, std::size_t d, std::size_t n_grids,
                            const double* widths, const double* offsets,
                            const std::uint64_t* multipliers, std::uint32_t* codes, int n_threads) {
    std::atomic<std::size_t> next{0};
    auto work = [&] {
        for (std::size_t g; (g = next++) < n_grids;) {
            Table table;
            for (std::size_t i = 0; i < n; ++i) {
                std::uint64_t key = 0;
                for (std::size_t j = 0; j < d; ++j) {
                    const double bin = (X[i * d + j] - offsets[g * d + j]) / widths[g * d + j];
                    key += static_cast<std::uint64_t>(static_cast<std::int64_t>(std::floor(bin))) *
                           multipliers[g * d + j];
                }
                codes[i * n_grids + g] = table.number(key);
            }
        }
    };
    std::vector<std::thread> threads;
    for (int t = 1; t < n_threads; ++t) threads.emplace_back(work);
    work();
    for (auto& thread : threads) thread.join();
}
