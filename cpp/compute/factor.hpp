// Symmetric matrices in strips, their Cholesky factors, and memory for them.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>

#include "factor_loops.hpp"
#include "isa.hpp"

namespace mercer {

#if defined(MERCER_X86_LEVELS)
extern const FactorLoops factor_loops_v2, factor_loops_v3, factor_loops_v4;
inline const FactorLoops* const factor_tables[] = {&factor_loops_v2, &factor_loops_v3,
                                                   &factor_loops_v4};
#else
extern const FactorLoops factor_loops_baseline;
inline const FactorLoops* const factor_tables[] = {&factor_loops_baseline};
#endif

inline const FactorLoops& factor_loops() {
    static const FactorLoops& chosen = *factor_tables[choose_level()];
    return chosen;
}

// Numbers that begin with a cache line and are not written: pages nobody needs are never touched.
template <class T>
class LinedUp {
  public:
    explicit LinedUp(std::size_t count) : numbers_(take(count)) {}
    T* data() const { return numbers_.get(); }

  private:
    static constexpr std::align_val_t kLine{64};
    struct Free {
        void operator()(T* numbers) const { ::operator delete[](numbers, kLine); }
    };
    static T* take(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
        return static_cast<T*>(::operator new[](count * sizeof(T), kLine));
    }
    std::unique_ptr<T[], Free> numbers_;
};

}  // namespace mercer
