#include "probe/argument.hpp"

namespace vitrine::probe {

std::string_view name(ArgumentError::Kind kind) {
  switch (kind) {
    case ArgumentError::Kind::syntax:
      return "syntax";
    case ArgumentError::Kind::unresolved:
      return "unresolved";
    case ArgumentError::Kind::unsupported:
      return "unsupported";
  }
  return "syntax";
}

}  // namespace vitrine::probe
