#include "bpf/nop_policy.hpp"

#include <gtest/gtest.h>
