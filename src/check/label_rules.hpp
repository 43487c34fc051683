// What the rules about slots ask, of whichever format.
#pragma once

#include "check/file_facts.hpp"

namespace vitrine::check {

Outcome slot_exported(const FileSubject& subject, const SlotFacts& slot);
Outcome slot_thread_local(const FileSubject& subject, const SlotFacts& slot);
Outcome slot_bound(const FileSubject& subject, const SlotFacts& slot);

/// "TLSDESC and GD"; "none".
std::string access_names(const SlotFacts& slot);

}  // namespace vitrine::check
