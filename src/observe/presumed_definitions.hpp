// What the file of an executable lets one presume of processes that will run it.
#pragma once

#include <vector>

#include "file/file_memory.hpp"
#include "observe/definitions.hpp"

namespace vitrine::observe {

/// Where an executable's own variables for labels will be in its threads. None when its file has no
/// symbol table, or no such variables. In which version of a format it displays labels is presumed:
/// only the process tells.
std::vector<Definition> presumed_definitions(file::FileMemory& file);

}  // namespace vitrine::observe
