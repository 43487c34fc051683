#include "unwind/frame.hpp"

namespace vitrine::unwind {

const char* name_of(End end) {
  switch (end) {
    case End::outermost:
      return "outermost";
    case End::truncated:
      return "truncated";
    case End::no_rule:
      return "no rule";
    case End::bad:
      return "bad";
    case End::limit:
      break;
  }
  return "limit";
}

}  // namespace vitrine::unwind
