// Words of a condition that were probably meant as arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "observe/trace_program.hpp"

namespace vitrine::observe {

/// A sentence for each bare word of `where` that no program has for an argument, so that it is taken
/// for a label, and that looks like an argument: it is compared with numbers by size, or spelt like
/// one.
std::vector<std::string> doubtful_words(const query::Expression& where,
                                        const std::vector<std::unique_ptr<TraceProgram>>& programs);

/// The same of what is to be added up: whatever it looks like, labels are rarely numbers.
std::vector<std::string> doubtful_words(const query::Item& value,
                                        const std::vector<std::unique_ptr<TraceProgram>>& programs);

}  // namespace vitrine::observe
