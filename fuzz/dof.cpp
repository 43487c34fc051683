// A `.SUNW_dof` section, and what becomes of it: decoded, written again, decoded again.
#include "dof/dof.hpp"

#include "dof/reader.hpp"
#include "dof/writer.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

void check(const dof::Object& object, const dof::Record& record) {
  fuzz::require(!record.name.empty() && record.name.size() <= limits::dof_probe_name);
  fuzz::require(record.function.size() <= limits::dof_read_function_name);
  fuzz::require(!record.offsets.empty() || !record.enabled_offsets.empty());
  fuzz::require(record.word_offset + sizeof record.word <= object.loadable_size);
  const dof::Prototype& prototype = record.prototype;
  fuzz::require(prototype.argument_map.size() == prototype.translated.size());
  for (const std::uint8_t native : prototype.argument_map)
    fuzz::require(native < prototype.native.size());
  const auto function = dof::function_address(object, record, {fuzz::base});
  if (!function || object.model == dof::Model::lp64) return;
  for (const std::uint32_t offset : record.offsets)
    fuzz::require(dof::site_address(object.model, *function, offset) <= UINT32_MAX);
}

void check(const dof::Object& object) {
  fuzz::require(object.loadable_size <= object.file_size);
  fuzz::require(object.problems.size() <= limits::dof_problems + 1);
  for (const dof::Provider& provider : object.providers) {
    fuzz::require(!provider.name.empty() && provider.name.size() <= limits::dof_provider_name);
    for (const dof::Record& record : provider.records) check(object, record);
    for (const dof::Semaphore& semaphore : provider.semaphores)
      fuzz::require(semaphore.word_offset + sizeof semaphore.word <= object.file_size);
  }
}

bool same(const dof::Record& a, const dof::Record& b) {
  return a.name == b.name && a.function == b.function && a.prototype == b.prototype &&
         a.offsets == b.offsets && a.enabled_offsets == b.enabled_offsets && a.word == b.word &&
         a.word_offset == b.word_offset && a.relocation == b.relocation;
}

/// What the encoder takes comes back.
void round_trip(dof::Object object) {
  const auto bytes = dof::write(object);
  if (!bytes) return;  // a name that we would not write, and the like
  const dof::Objects again = dof::read(*bytes);
  fuzz::require(again.problems.empty() && again.objects.size() == 1);
  const dof::Object& back = again.objects[0];
  fuzz::require(back.problems.empty() && back.providers.size() == object.providers.size());
  for (std::size_t i = 0; i < back.providers.size(); ++i) {
    const dof::Provider& one = back.providers[i];
    const dof::Provider& other = object.providers[i];
    fuzz::require(one.name == other.name && one.stabilities == other.stabilities);
    fuzz::require(one.records.size() == other.records.size() &&
                  one.semaphores.size() == other.semaphores.size());
    for (std::size_t k = 0; k < one.records.size(); ++k)
      fuzz::require(same(one.records[k], other.records[k]));
    for (std::size_t k = 0; k < one.semaphores.size(); ++k)
      fuzz::require(one.semaphores[k].name == other.semaphores[k].name &&
                    one.semaphores[k].word == other.semaphores[k].word &&
                    one.semaphores[k].word_offset == other.semaphores[k].word_offset);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dof::Objects found = dof::read(fuzz::bytes(data, size));
  fuzz::require(found.decoded_bytes <= size * limits::dof_expansion);
  std::uint64_t end = 0;
  for (const dof::Object& object : found.objects) {
    fuzz::require(object.offset % 8 == 0 && object.offset >= end);
    end = object.offset + object.file_size;
    fuzz::require(end <= size);
    check(object);
    round_trip(object);
  }
  return 0;
}
