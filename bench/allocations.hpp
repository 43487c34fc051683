// Counts every allocation of the program, whoever makes it.
#pragma once

#include <cstddef>

namespace bench {
std::size_t allocations();
}
