// Records of the trace, right and wrong, and the sets kept from them.
#include "bpf/fire.hpp"

#include <gtest/gtest.h>
