// The provider that objects are rewritten for.
#pragma once

#include "usdt/definition.hpp"

namespace vitrine::fuzz {

inline usdt::Definition shop_provider() {
  usdt::Probe start, done;
  start.name = "order-start";
  done.name = "done";
  usdt::Provider shop;
  shop.name = "shop";
  shop.probes = {start, done};
  usdt::Definition all;
  all.providers = {shop};
  return all;
}

}  // namespace vitrine::fuzz
