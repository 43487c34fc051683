// customlabels.node: label sets, and the running thread's place on display, for JavaScript.
//
// The file's name is part of Custom Labels' ABI v1: readers look for `customlabels\.node$`. It exports
// what they look for in it because it is built from the publishing sources (binding.gyp), and it is
// never unloaded.
//
// JavaScript decides when a set is in force (follow.js); here one is made, and put there by one store.
#include <napi.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>

#include "publish/base/thread.hpp"

namespace {

namespace labels = vitrine::labels;
using labels::detail::Words;

/// A set as JavaScript holds it. `bytes`: about what it keeps from being used again, for the garbage
/// collector, which would see no more than a pointer.
struct Held {
  labels::Set set;
  std::int64_t bytes;
};

/// The bytes of a string (as UTF-8) or of a Uint8Array.
std::string bytes_of(const Napi::Value& value) {
  if (value.IsString()) return value.As<Napi::String>().Utf8Value();
  const auto array = value.As<Napi::Uint8Array>();
  return {reinterpret_cast<const char*>(array.Data()), array.ByteLength()};
}

/// {trace id, span id, flags} in 16 + 8 + 1 bytes.
labels::Trace trace_of(const Napi::Value& value) {
  const auto bytes = value.As<Napi::Uint8Array>();
  labels::Trace trace;
  if (bytes.ByteLength() != 25) return trace;
  std::copy_n(bytes.Data(), 16, trace.trace_id.bytes.begin());
  std::copy_n(bytes.Data() + 16, 8, trace.span_id.bytes.begin());
  trace.flags = bytes[24];
  return trace;
}

/// derive(pairs, trace?): the set in force with [key, value, key, value…] on top; in force stays what is.
Napi::Value derive(const Napi::CallbackInfo& info) {
  const auto pairs = info[0].As<Napi::Array>();
  std::vector<std::string> values;
  std::vector<labels::Label> on_top;
  const std::uint32_t count = pairs.Length() / 2;
  values.reserve(count);  // labels refer to them: they must not move
  on_top.reserve(count);
  std::int64_t bytes = 256;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string key = bytes_of(pairs.Get(2 * i));
    values.push_back(bytes_of(pairs.Get(2 * i + 1)));
    on_top.emplace_back(labels::Key(key), values.back());
    bytes += static_cast<std::int64_t>(64 + values.back().size());
  }

  const labels::Trace trace = info.Length() > 1 ? trace_of(info[1]) : labels::Trace{};
  const auto opened = info.Length() > 1 ? labels::Scope(trace, on_top.data(), on_top.size())
                                        : labels::Scope(on_top.data(), on_top.size());
  labels::Set set = opened.ok() ? labels::capture() : labels::Set{};
  const labels::Status status = opened.ok() ? set.status() : opened.status();
  if (!status) {
    Napi::RangeError::New(info.Env(), "labels: " + std::string(status.message()))
        .ThrowAsJavaScriptException();
    return info.Env().Undefined();
  }
  Napi::MemoryManagement::AdjustExternalMemory(info.Env(), bytes);
  return Napi::External<Held>::New(
      info.Env(), new Held{std::move(set), bytes}, [](Napi::Env env, Held* held) {
        Napi::MemoryManagement::AdjustExternalMemory(env, -held->bytes);
        delete held;
      });
}

/// putInForce(set?): exactly this set, or none, is in force on this thread. As with a coroutine's hop,
/// whoever calls keeps the set.
napi_value put_in_force(napi_env env, napi_callback_info info) {
  napi_value set = nullptr;
  std::size_t count = 1;
  void* held = nullptr;
  if (napi_get_cb_info(env, info, &count, &set, nullptr, nullptr) != napi_ok ||
      napi_get_value_external(env, set, &held) != napi_ok)
    held = nullptr;
  labels::detail::put_in_force(
      vitrine::publish::thread(),
      held == nullptr ? Words{0, 0} : static_cast<const Held*>(held)->set.words());
  return nullptr;
}

/// labelsInForce(): [key, value, key, value…] as Buffers.
Napi::Value labels_in_force(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Napi::Array pairs = Napi::Array::New(env);
  std::uint32_t at = 0;
  labels::for_each([&](std::string_view key, std::string_view value) {
    pairs.Set(at++, Napi::Buffer<char>::Copy(env, key.data(), key.size()));
    pairs.Set(at++, Napi::Buffer<char>::Copy(env, value.data(), value.size()));
  });
  return pairs;
}

/// A string, a boolean or a number, as index.js made sure.
vitrine::context::Value attribute_of(const Napi::Value& value) {
  if (value.IsString()) return value.As<Napi::String>().Utf8Value();
  if (value.IsBoolean()) return value.As<Napi::Boolean>().Value();
  constexpr double exact = 9007199254740992.0;  // 2^53
  const double number = value.As<Napi::Number>().DoubleValue();
  if (number == std::trunc(number) && std::abs(number) < exact)
    return static_cast<std::int64_t>(number);
  return number;
}

/// publishContext([key, value, key, value…])
void publish_context(const Napi::CallbackInfo& info) {
  const auto pairs = info[0].As<Napi::Array>();
  std::vector<vitrine::context::Attribute> resource;
  for (std::uint32_t i = 0; i + 1 < pairs.Length(); i += 2)
    resource.push_back({bytes_of(pairs.Get(i)), attribute_of(pairs.Get(i + 1))});
  if (auto done = vitrine::context::publish(std::move(resource)); !done)
    Napi::Error::New(info.Env(), "publishContext: " + std::string(done.message()))
        .ThrowAsJavaScriptException();
}

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports.Set("derive", Napi::Function::New(env, derive, "derive"));
  exports.Set("labelsInForce", Napi::Function::New(env, labels_in_force, "labelsInForce"));
  exports.Set("publishContext", Napi::Function::New(env, publish_context, "publishContext"));
  napi_value put = nullptr;  // on the way of every hop: without the wrapper's own work
  if (napi_create_function(env, "putInForce", NAPI_AUTO_LENGTH, put_in_force, nullptr, &put) ==
      napi_ok)
    exports.Set("putInForce", Napi::Function(env, put));
  // A worker that is terminated leaves its functions without leaving their labels.
  env.AddCleanupHook([] { labels::detail::put_in_force(vitrine::publish::thread(), Words{0, 0}); });
  return exports;
}

}  // namespace

NODE_API_MODULE(customlabels, initialise)
