#include "telemetry/requests.hpp"

#include <protozero/pbf_reader.hpp>

#include "telemetry/attributes.hpp"

namespace vitrine::telemetry {
namespace {

namespace request {
constexpr Tag resource_items = 1;
}
namespace resource_items {
constexpr Tag resource = 1, scope_items = 2, schema_url = 3;
}
namespace scope_items {
constexpr Tag scope = 1, items = 2, schema_url = 3;
}

/// What a resource costs beside its items: scope, URLs, and the lengths of messages.
constexpr std::size_t frame_bytes = 160;
constexpr std::size_t item_frame_bytes = 6;

using Reader = protozero::pbf_reader;
constexpr auto is_message = protozero::pbf_wire_type::length_delimited;

std::string text_of(protozero::data_view bytes) {
  return {bytes.data(), bytes.size()};
}

std::vector<std::string> items_of(Reader scope) {
  std::vector<std::string> items;
  while (scope.next(scope_items::items, is_message)) items.push_back(text_of(scope.get_view()));
  return items;
}

}  // namespace

void Requests::add(const std::string& resource, std::string item) {
  const auto cost = [&](bool known) {
    return item.size() + item_frame_bytes + (known ? 0 : resource.size() + frame_bytes);
  };
  if (cost(false) > max_bytes_) {
    ++too_large_;
    return;
  }
  if (open_bytes_ + cost(places_.contains(resource)) > max_bytes_) close();
  const auto [place, fresh] = places_.try_emplace(resource, open_.size());
  if (fresh) open_.emplace_back(resource, std::vector<std::string>());
  open_bytes_ += cost(!fresh);
  bytes_ += cost(!fresh);
  open_[place->second].second.push_back(std::move(item));
}

void Requests::close() {
  if (open_.empty()) return;
  std::string body;
  Writer message(body);
  for (const auto& [resource, items] : open_) {
    Writer its(message, request::resource_items);
    its.add_message(resource_items::resource, resource);
    {
      Writer scope(its, resource_items::scope_items);
      add_scope(scope, scope_items::scope);
      for (const std::string& item : items) scope.add_message(scope_items::items, item);
      scope.add_string(scope_items::schema_url, conventions);
    }
    its.add_string(resource_items::schema_url, conventions);
  }
  closed_.push_back(std::move(body));
  open_.clear();
  places_.clear();
  open_bytes_ = 0;
}

std::vector<std::string> Requests::take() {
  close();
  bytes_ = 0;
  return std::exchange(closed_, {});
}

std::vector<std::string> split_request(std::string_view request) try {
  std::vector<std::pair<std::string, std::string>> all;  // resource and item
  Reader message(request.data(), request.size());
  while (message.next(request::resource_items, is_message)) {
    Reader its = message.get_message();
    std::string resource;
    while (its.next()) {
      if (its.tag_and_type() == protozero::tag_and_type(resource_items::resource, is_message))
        resource = text_of(its.get_view());
      else if (its.tag_and_type() ==
               protozero::tag_and_type(resource_items::scope_items, is_message))
        for (std::string& item : items_of(its.get_message()))
          all.emplace_back(resource, std::move(item));
      else
        its.skip();
    }
  }
  Requests first(request.size() + frame_bytes), second(request.size() + frame_bytes);
  for (std::size_t i = 0; i < all.size(); ++i)
    (i < all.size() / 2 ? first : second).add(all[i].first, std::move(all[i].second));
  std::vector<std::string> parts = first.take();
  for (std::string& part : second.take()) parts.push_back(std::move(part));
  return parts;
} catch (const protozero::exception&) {
  return {};
}

}  // namespace vitrine::telemetry
