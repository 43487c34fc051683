// Values of fired probes as JSON.
#pragma once

#include "cli/json.hpp"
#include "probe/evaluate.hpp"
#include "query/number.hpp"

namespace vitrine::cli {

/// A number; a string where JSON has none that is exact: integers beyond 2^53, infinity, NaN.
Json json_number(const query::Number& number);

/// Integers and floats as json_number(), pointers as "0x…", enumerators by their name, text as
/// json_bytes(), bytes as {"base64":"…"}, what could not be read as {"error":"…"}.
Json json_value(const probe::Value& value);

}  // namespace vitrine::cli
