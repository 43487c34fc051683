// What is known about the process without being told: defaults, and the OTEL_ environment
// variables.
#pragma once

#include <string_view>

#include "publish/context_encoder.hpp"
#include "vitrine/context.hpp"

namespace vitrine::context {

/// A random UUID (version 4) as text.
struct InstanceId {
  char text[36];
  bool known;  ///< false: the kernel gave no random bytes
};

/// The resource that the environment variables describe: OTEL_RESOURCE_ATTRIBUTES (key=value,
/// comma-separated, percent-encoded, each value a string), then OTEL_SERVICE_NAME. One that breaks
/// its syntax anywhere is discarded as a whole, as the OpenTelemetry resource specification has it;
/// `discarded` is then set to what was wrong with it. False: no memory.
bool resource_from_environment(AttributeList& resource, const char*& discarded) noexcept;

/// VITRINE_THREAD_SCHEMA; empty: not set, or not valid UTF-8 (`discarded` says so). It refers to the
/// environment.
std::string_view thread_schema_from_environment(const char*& discarded) noexcept;

/// The defaults that publish() documents; without an instance id that is not known.
void set_defaults(AttributeList& resource, const InstanceId& instance_id) noexcept;

InstanceId random_uuid() noexcept;

}  // namespace vitrine::context
