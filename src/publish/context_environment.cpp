#include "publish/context_environment.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "publish/context_encoder.hpp"

// As the semantic conventions name them; bindings for other languages say theirs.
#ifndef VITRINE_SDK_LANGUAGE
#define VITRINE_SDK_LANGUAGE "cpp"
#endif

namespace vitrine::context {
namespace {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  if (!is_utf8(out)) return std::nullopt;
  return out;
}

/// An environment variable; one that is empty counts as not set, as OpenTelemetry has it. Nothing
/// is taken from the environment of a set-user-ID program: it is someone else's.
std::string_view environment(const char* name) {
  const char* value = secure_getenv(name);
  return value ? value : std::string_view{};
}

std::string executable_name() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0) return {};
  std::string_view name(path, static_cast<std::size_t>(size));
  name.remove_prefix(name.rfind('/') + 1);
  constexpr std::string_view deleted = " (deleted)";
  if (name.size() > deleted.size() && name.substr(name.size() - deleted.size()) == deleted)
    name.remove_suffix(deleted.size());
  return is_utf8(name) ? std::string(name) : std::string{};
}

}  // namespace

void set_attribute(std::vector<Attribute>& attributes, Attribute attribute) {
  for (Attribute& known : attributes) {
    if (known.key == attribute.key) {
      known = std::move(attribute);
      return;
    }
  }
  attributes.push_back(std::move(attribute));
}

std::optional<std::vector<Attribute>> parse_resource_attributes(std::string_view text) {
  std::vector<Attribute> attributes;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view member = trim(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (member.empty()) continue;  // a trailing comma, as scripts that append leave it
    const auto equals = member.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    auto key = percent_decode(trim(member.substr(0, equals)));
    auto value = percent_decode(trim(member.substr(equals + 1)));
    if (!key || key->empty() || !value) return std::nullopt;
    set_attribute(attributes, {std::move(*key), std::move(*value)});
  }
  return attributes;
}

std::vector<Attribute> resource_from_environment(std::string& discarded) {
  std::vector<Attribute> resource;
  if (auto parsed = parse_resource_attributes(environment("OTEL_RESOURCE_ATTRIBUTES")))
    resource = std::move(*parsed);
  else
    discarded = "OTEL_RESOURCE_ATTRIBUTES is ignored: not a list of key=value, percent-encoded";
  if (const std::string_view service = trim(environment("OTEL_SERVICE_NAME")); !service.empty()) {
    if (is_utf8(service))
      set_attribute(resource, {"service.name", service});
    else
      discarded = "OTEL_SERVICE_NAME is ignored: not valid UTF-8";
  }
  return resource;
}

std::string thread_schema_from_environment(std::string& discarded) {
  const std::string_view schema = trim(environment("VITRINE_THREAD_SCHEMA"));
  if (is_utf8(schema)) return std::string(schema);
  discarded = "VITRINE_THREAD_SCHEMA is ignored: not valid UTF-8";
  return {};
}

std::vector<Attribute> default_resource(const std::string& instance_id) {
  const std::string executable = executable_name();
  std::vector<Attribute> resource = {
      {"service.name", "unknown_service" + (executable.empty() ? "" : ":" + executable)},
      {"process.pid", getpid()},
      {"telemetry.sdk.name", "vitrine"},
      {"telemetry.sdk.language", VITRINE_SDK_LANGUAGE},
      {"telemetry.sdk.version", VITRINE_VERSION},
  };
  if (!instance_id.empty()) resource.push_back({"service.instance.id", instance_id});
  return resource;
}

std::string random_uuid() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return {};
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // version 4: random
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);  // RFC 4122 variant
  std::string text;
  for (std::size_t i = 0; i < sizeof bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
    text.push_back("0123456789abcdef"[bytes[i] >> 4]);
    text.push_back("0123456789abcdef"[bytes[i] & 15]);
  }
  return text;
}

}  // namespace vitrine::context
