#include "query/expression.hpp"
#include "query/reduction.hpp"
