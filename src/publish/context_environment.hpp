// What is known about the process without being told: defaults, and the OTEL_ environment
// variables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vitrine/context.hpp"

namespace vitrine::context {

/// Adds `attribute`, or replaces the one of the same key.
void set_attribute(std::vector<Attribute>& attributes, Attribute attribute);

/// The attributes of OTEL_RESOURCE_ATTRIBUTES: key=value, comma-separated, percent-encoded, each
/// value a string. nullopt when the text breaks that syntax anywhere: the OpenTelemetry resource
/// specification has it discarded as a whole then.
std::optional<std::vector<Attribute>> parse_resource_attributes(std::string_view text);

/// The resource that the environment variables describe. `discarded` is set to what was wrong with
/// one that had to be discarded.
std::vector<Attribute> resource_from_environment(std::string& discarded);

/// VITRINE_THREAD_SCHEMA; empty: not set, or not valid UTF-8 (`discarded` says so).
std::string thread_schema_from_environment(std::string& discarded);

/// The defaults that publish() documents. `instance_id` may be empty: there is none then.
std::vector<Attribute> default_resource(const std::string& instance_id);

/// A random UUID (version 4) as text; empty when the kernel gives no random bytes.
std::string random_uuid();

}  // namespace vitrine::context
