// A collector for tests that speaks gRPC, by gRPC's own library: what receiver.py is for HTTP.
//
// usage: grpc_receiver FOLDER [--tls CERTIFICATE KEY [--clients AUTHORITY]] ANSWER...
// Prints its port, then one line of JSON a request. The last ANSWER goes for all that follow:
//   ok               taken                       partial:N:TEXT  taken but for N profiles
//   STATUS:TEXT      that status, by its number  retry:S:TEXT    RESOURCE_EXHAUSTED, and RetryInfo
//   above:BYTES:STATUS  that status to a message of more than BYTES; ok to others
//   stall            no answer
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "partial_success.hpp"

namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string out;
  if (buffer.Dump(&slices).ok())
    for (const grpc::Slice& slice : slices)
      out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return out;
}

grpc::ByteBuffer buffer_of(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

/// google.rpc.Status with a RetryInfo.
std::string retry_status(long seconds) {
  std::string out;
  protozero::pbf_writer status(out);
  status.add_int32(1, grpc::StatusCode::RESOURCE_EXHAUSTED);
  protozero::pbf_writer any(status, 3);
  any.add_string(1, "type.googleapis.com/google.rpc.RetryInfo");
  std::string info;
  {
    protozero::pbf_writer message(info);
    protozero::pbf_writer duration(message, 1);
    duration.add_int64(1, seconds);
  }
  any.add_bytes(2, info);
  return out;
}

struct Words {
  std::string first, second, rest;
  explicit Words(const std::string& text) {
    const std::size_t colon = text.find(':');
    first = text.substr(0, colon);
    rest = colon == text.npos ? "" : text.substr(colon + 1);
    const std::size_t next = rest.find(':');
    second = rest.substr(0, next);
  }
  [[nodiscard]] std::string third() const {
    return rest.size() > second.size() ? rest.substr(second.size() + 1) : "";
  }
};

/// One call; those that are never answered stay.
struct Call {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
};

void answer(Call& call, const std::string& told, std::size_t bytes, void* tag) {
  const Words words(told);
  const auto ok = [&](const std::string& text) {
    call.stream.WriteAndFinish(buffer_of(text), {}, grpc::Status::OK, tag);
  };
  const auto fail = [&](int status, const std::string& text, const std::string& details = {}) {
    call.stream.Finish({static_cast<grpc::StatusCode>(status), text, details}, tag);
  };
  if (words.first == "ok") return ok("");
  if (words.first == "partial")
    return ok(vitrine::test::partial_success(std::stol(words.second), words.third()));
  if (words.first == "retry")
    return fail(grpc::StatusCode::RESOURCE_EXHAUSTED, words.third(),
                retry_status(std::stol(words.second)));
  if (words.first == "above" && bytes <= std::stoul(words.second)) return ok("");
  if (words.first == "above") return fail(std::stoi(words.third()), "too much for this tenant");
  fail(std::stoi(words.first), words.rest);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  const auto take = [&] {
    std::string word = words.front();
    words.erase(words.begin());
    return word;
  };
  const std::filesystem::path folder = take();
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (words.front() == "--tls") {
    take();
    grpc::SslServerCredentialsOptions options;
    const std::string certificate = content_of(take());
    options.pem_key_cert_pairs.push_back({content_of(take()), certificate});
    if (words.front() == "--clients") {
      take();
      options.pem_root_certs = content_of(take());
      options.client_certificate_request =
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    }
    credentials = grpc::SslServerCredentials(options);
  }
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (!server) return 1;
  std::cout << port << std::endl;
  const auto wait = [&](const void* tag) {
    void* done = nullptr;
    bool fine = false;
    while (queue->Next(&done, &fine))
      if (done == tag) return fine;
    std::exit(0);
  };
  for (std::size_t number = 0;; ++number) {
    auto* call = new Call;
    service.RequestCall(&call->context, &call->stream, queue.get(), queue.get(), call);
    if (!wait(call)) return 0;
    grpc::ByteBuffer buffer;
    call->stream.Read(&buffer, call);
    if (!wait(call)) continue;
    const std::string body = text_of(buffer), told = words[std::min(number, words.size() - 1)];
    const std::string file = folder / ("grpc-" + std::to_string(number));
    std::ofstream(file, std::ios::binary) << body;
    nlohmann::json line = {
        {"answer", told},
        {"path", call->context.method()},
        {"at", std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
                   .count()},
        {"body", file},
        {"headers", nlohmann::json::object()}};
    for (const auto& [name, value] : call->context.client_metadata())
      line["headers"][std::string(name.data(), name.size())] =
          std::string(value.data(), value.size());
    std::cout << line.dump() << std::endl;
    if (told == "stall") continue;
    answer(*call, told, body.size(), call);
    wait(call);
    delete call;
  }
}
