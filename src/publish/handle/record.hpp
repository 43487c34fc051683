// The OpenTelemetry thread record of a handle, for programs that ask for it: labels of the C
// interface as readers of OTEP-4947 see them.
//
// The record is behind its handle and stays there, so the words that put the handle in force never
// change. It follows the handle's version: after each change it is written again, in the way that
// the OTEP has for records that change (`valid` is 0 meanwhile). It may be a change behind the
// labels, and is never a mixture. A signal handler that changes the handle while its record is being
// written leaves the record to the interrupted code, which starts again as long as there is another
// version than the one it wrote.
#pragma once

#include "publish/handle/handle.hpp"

namespace vitrine::publish {

/// Behind a handle of record_handle_class.
struct HandleRecord {
  abi::thread_context::Record head;
  char attributes[record_handle_bytes - sizeof(Handle) - sizeof(abi::thread_context::Record) - 8];
  bool busy;  ///< it is being written
};
static_assert(sizeof(Handle) + sizeof(HandleRecord) <= record_handle_bytes);

#if VITRINE_PUBLISH_OTEL

/// Whether handles that are made from now on have records. Then `Thread::cells` is null, so that
/// everything takes the way where records are looked after.
bool records_wanted() noexcept;
void want_records(bool wanted) noexcept;

inline HandleRecord* record_of(Handle& handle) noexcept {
  return handle.cell.size_class == record_handle_class
             ? reinterpret_cast<HandleRecord*>(&handle + 1)
             : nullptr;
}

void refresh(HandleRecord& record, Handle& handle, const Cells* here) noexcept;

/// Makes the record, if there is one, that of the version in use. Keys that the process has not used
/// before are interned.
inline void refresh_record(Handle& handle, const Cells* here) noexcept {
  HandleRecord* record = record_of(handle);
  if (__builtin_expect(record != nullptr, 0)) refresh(*record, handle, here);
}

/// The handle ends.
void end_record(Handle& handle) noexcept;

#else

inline bool records_wanted() noexcept {
  return false;
}
inline HandleRecord* record_of(Handle&) noexcept {
  return nullptr;
}
inline void refresh_record(Handle&, const Cells*) noexcept {}
inline void end_record(Handle&) noexcept {}

#endif

}  // namespace vitrine::publish
