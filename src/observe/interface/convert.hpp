// From the values of the layers to those of <vitrine/observe/…>, whose types never change because a
// layer does.
#pragma once

#include <string>
#include <utility>
#include <vector>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/result.hpp>

#include "base/result.hpp"
#include "format/label_set.hpp"

namespace vitrine::observer::convert {

Error error(vitrine::Error from);
LabelSet label_set(const format::LabelSet& from);

/// Makes the public object of a capability that was opened, or passes its error on.
template <class Public, class Opened, class Make>
Result<Public> opened(vitrine::Result<Opened> from, Make make) {
  if (!from) return error(std::move(from.error()));
  return make(std::move(*from));
}

}  // namespace vitrine::observer::convert
