#include "dof/header.hpp"

#include <algorithm>

namespace vitrine::dof {

std::uint32_t StringTable::add(const std::vector<std::string>& texts) {
  if (texts.empty()) return 0;
  std::string joined;
  for (const std::string& text : texts) joined.append(text).push_back('\0');
  return add_bytes(std::move(joined));
}

std::uint32_t StringTable::add_bytes(std::string text) {
  const auto [known, is_new] =
      known_.try_emplace(std::move(text), static_cast<std::uint32_t>(bytes_.size()));
  if (is_new) bytes_ += known->first;
  return known->second;
}

namespace {

constexpr std::uint8_t magic[4] = {0x7f, 'D', 'O', 'F'};

/// What the first 24 bytes identify.
Result<void> check_identity(const vitrine_dof_header& header) {
  if (header.model != VITRINE_DOF_MODEL_ILP32 && header.model != VITRINE_DOF_MODEL_LP64)
    return malformed("its data model is {}: neither 1 (ILP32) nor 2 (LP64)", header.model);
  if (header.encoding == VITRINE_DOF_BIG_ENDIAN)
    return fail(ErrorCode::unsupported, "it is big-endian, which is not supported");
  if (header.encoding != VITRINE_DOF_LITTLE_ENDIAN)
    return malformed("its byte order is {}: neither 1 (little-endian) nor 2 (big-endian)",
                     header.encoding);
  if (header.version < VITRINE_DOF_VERSION_PLAIN ||
      header.version > VITRINE_DOF_VERSION_ENABLED_POINTER)
    return malformed("its version is {}, not 1 to 3", header.version);
  if (header.dif_version != VITRINE_DOF_DIF_VERSION)
    return malformed("its DIF version is {} instead of 2", header.dif_version);
  if (header.dif_int_registers > VITRINE_DOF_REGISTERS ||
      header.dif_tuple_registers > VITRINE_DOF_REGISTERS)
    return malformed("it requires {} integer and {} tuple registers of DIF; the limit is 8",
                     header.dif_int_registers, header.dif_tuple_registers);
  if (header.flags != 0) return malformed("its flags are {:#x} instead of 0", header.flags);
  const bool padded = std::all_of(std::begin(header.pad), std::end(header.pad),
                                  [](std::uint8_t byte) { return byte == 0; });
  if (!padded || header.pad2 != 0) return malformed("the padding in its header is not zero");
  return {};
}

Result<void> check_sizes(const vitrine_dof_header& header, std::size_t available) {
  if (header.header_size < sizeof header || header.header_size > limits::dof_header_bytes)
    return malformed("its header declares {} bytes: not between {} and {}", header.header_size,
                     sizeof header, limits::dof_header_bytes);
  if (header.loadable_size < header.header_size)
    return malformed("its loadable part of {} bytes ends within its header of {}",
                     header.loadable_size, header.header_size);
  if (header.loadable_size > header.file_size)
    return malformed("its loadable part has {} bytes, more than its total of {}",
                     header.loadable_size, header.file_size);
  if (header.file_size > limits::dof_bytes)
    return fail(ErrorCode::limit, fmt::format("it has {} bytes, and at most {} are read",
                                              header.file_size, limits::dof_bytes));
  if (header.file_size > available)
    return malformed("it declares {} bytes, and only {} are present", header.file_size, available);
  return {};
}

}  // namespace

bool has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof magic && std::memcmp(bytes.data(), magic, sizeof magic) == 0;
}

Result<vitrine_dof_header> read_header(std::span<const std::byte> bytes) {
  if (!has_magic(bytes)) return malformed("it does not begin with 7f 'D' 'O' 'F'");
  if (bytes.size() < sizeof(vitrine_dof_header))
    return malformed("it ends after {} of the {} bytes of its header", bytes.size(),
                     sizeof(vitrine_dof_header));
  const auto header = load<vitrine_dof_header>(bytes, 0);
  TRY(check_identity(header));
  TRY(check_sizes(header, bytes.size()));
  return header;
}

}  // namespace vitrine::dof
