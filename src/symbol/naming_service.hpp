// What a worker of a Symboliser does: it keeps one file, and names its addresses (wire.hpp).
#pragma once

#include "symbol/symboliser.hpp"
#include "worker/service.hpp"

namespace vitrine::symbol {

std::unique_ptr<worker::Service> make_naming_service(const Limits& limits);

}  // namespace vitrine::symbol
