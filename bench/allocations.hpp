// Counts every allocation of the program, made by any code.
#pragma once

#include <cstddef>

namespace bench {
std::size_t allocations();
}
