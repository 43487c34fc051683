// Keys that labels have in our output where their own would stand for something else.
#pragma once

#include <string_view>

namespace vitrine {

/// Before the key of a label that is called like a field of the output or a label of a waker.
inline constexpr std::string_view renamed_key_prefix = "label.";

/// Before the keys of the labels of the thread that woke another.
inline constexpr std::string_view waker_key_prefix = "waker.";

}  // namespace vitrine
