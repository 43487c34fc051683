#include "publish/context/environment.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "publish/base/bytes.hpp"

// As the semantic conventions name them; bindings for other languages define their own.
#ifndef VITRINE_SDK_LANGUAGE
#define VITRINE_SDK_LANGUAGE "cpp"
#endif

namespace vitrine::context {
namespace {

std::string_view trim(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return publish::part_of(text, first, text.find_last_not_of(" \t") - first + 1);
}

enum class Parsed : std::uint8_t { ok, broken, no_memory };

Parsed percent_decode(Buffer& out, std::string_view text) noexcept {
  out.truncate(0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '%') {
      if (text.size() - i < 3) return Parsed::broken;
      const int high = publish::hex_digit(text[i + 1]), low = publish::hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return Parsed::broken;
      byte = static_cast<char>(high << 4 | low);
      i += 2;
    }
    out.append(byte);
  }
  if (!out.ok()) return Parsed::no_memory;
  return publish::is_utf8(out.view()) ? Parsed::ok : Parsed::broken;
}

Parsed parse_resource_attributes(AttributeList& attributes, std::string_view text) noexcept {
  Buffer key, value;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view member = trim(publish::part_of(text, 0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (member.empty()) continue;  // a trailing comma, as scripts that append leave it
    const auto equals = member.find('=');
    if (equals == std::string_view::npos) return Parsed::broken;
    if (const Parsed bad = percent_decode(key, trim(publish::part_of(member, 0, equals)));
        bad != Parsed::ok)
      return bad;
    if (const Parsed bad = percent_decode(value, trim(publish::part_of(member, equals + 1)));
        bad != Parsed::ok)
      return bad;
    if (key.empty()) return Parsed::broken;
    attributes.set(key.view(), value.view());
  }
  return attributes.ok() ? Parsed::ok : Parsed::no_memory;
}

/// An environment variable; one that is empty counts as not set, as OpenTelemetry has it. Nothing
/// is taken from the environment of a set-user-ID program: its caller controls it.
std::string_view environment(const char* name) {
  const char* value = secure_getenv(name);
  return value ? value : std::string_view{};
}

/// The default service.name, in `text`.
struct ServiceName {
  static constexpr std::string_view unknown = "unknown_service";
  char text[unknown.size() + 1 + PATH_MAX];

  std::string_view view() noexcept {
    std::memcpy(text, unknown.data(), unknown.size());
    // The path goes where the executable's name begins after its last slash: behind the colon.
    char* path = text + unknown.size() + 1;
    const ssize_t size = readlink("/proc/self/exe", path, PATH_MAX);
    if (size <= 0) return unknown;
    std::string_view name(path, static_cast<std::size_t>(size));
    name.remove_prefix(name.rfind('/') + 1);
    constexpr std::string_view deleted = " (deleted)";
    if (name.size() > deleted.size() &&
        publish::part_of(name, name.size() - deleted.size()) == deleted)
      name.remove_suffix(deleted.size());
    if (name.empty() || !publish::is_utf8(name)) return unknown;
    std::memmove(path, name.data(), name.size());
    text[unknown.size()] = ':';
    return {text, unknown.size() + 1 + name.size()};
  }
};

}  // namespace

bool resource_from_environment(AttributeList& resource, const char*& discarded) noexcept {
  switch (parse_resource_attributes(resource, environment("OTEL_RESOURCE_ATTRIBUTES"))) {
    case Parsed::ok:
      break;
    case Parsed::no_memory:
      return false;
    case Parsed::broken:
      resource.clear();
      discarded = "OTEL_RESOURCE_ATTRIBUTES is ignored: not a list of key=value, percent-encoded";
  }
  if (const std::string_view service = trim(environment("OTEL_SERVICE_NAME")); !service.empty()) {
    if (publish::is_utf8(service))
      resource.set("service.name", service);
    else
      discarded = "OTEL_SERVICE_NAME is ignored: not valid UTF-8";
  }
  return resource.ok();
}

std::string_view thread_schema_from_environment(const char*& discarded) noexcept {
  const std::string_view schema = trim(environment("VITRINE_THREAD_SCHEMA"));
  if (publish::is_utf8(schema)) return schema;
  discarded = "VITRINE_THREAD_SCHEMA is ignored: not valid UTF-8";
  return {};
}

void set_defaults(AttributeList& resource, const InstanceId& instance_id) noexcept {
  ServiceName service;
  resource.set("service.name", service.view());
  resource.set("process.pid", getpid());
  resource.set("telemetry.sdk.name", "vitrine");
  resource.set("telemetry.sdk.language", VITRINE_SDK_LANGUAGE);
  resource.set("telemetry.sdk.version", VITRINE_VERSION);
  if (instance_id.known)
    resource.set("service.instance.id",
                 std::string_view(instance_id.text, sizeof instance_id.text));
}

InstanceId random_uuid() noexcept {
  InstanceId id{};
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return id;
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // version 4: random
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);  // RFC 4122 variant
  char* to = id.text;
  for (std::size_t i = 0; i < sizeof bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
    *to++ = "0123456789abcdef"[bytes[i] >> 4];
    *to++ = "0123456789abcdef"[bytes[i] & 15];
  }
  id.known = true;
  return id;
}

}  // namespace vitrine::context
