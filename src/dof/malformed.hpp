// How the decoder refuses a DOF: one sentence that says what and where.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "base/result.hpp"

namespace vitrine::dof {

template <class... Args>
tl::unexpected<Error> malformed(fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::malformed, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace vitrine::dof
