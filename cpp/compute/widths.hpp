// What there is of every width of codes, and of both types of numbers.
#pragma once

#include <cstdint>

namespace mercer {

// One `Of` for each width of codes.
template <template <class> class Of>
struct ByWidth {
    Of<std::uint8_t> u8;
    Of<std::uint16_t> u16;
    Of<std::uint32_t> u32;

    template <class Code>
    const Of<Code>& of() const {
        if constexpr (sizeof(Code) == 1)
            return u8;
        else if constexpr (sizeof(Code) == 2)
            return u16;
        else
            return u32;
    }
};

}  // namespace mercer
