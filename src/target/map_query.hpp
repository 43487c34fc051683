// PROCMAP_QUERY (Linux 6.11): the kernel tells single mappings, which saves reading the text of all.
#pragma once

#include "target/maps.hpp"

namespace vitrine::target {

/// Which mappings are asked for: readable ones of files, executable ones of all kinds.
enum class QueryFilter { readable, executable };

/// The first such mapping that ends after `address`. `maps`: descriptor of /proc/PID/maps. False,
/// with errno: ENOENT (there is none), ENOTTY or EINVAL (not known to this kernel), ESRCH.
bool query_mapping(int maps, Address address, QueryFilter filter, Mapping& mapping);

}  // namespace vitrine::target
