#include "query/predicate.h"
