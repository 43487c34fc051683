// gRPC's callback API, without generated code: reactors on both sides, work that the server hands to
// a pool, and unary calls with a callback.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <latch>
#include <vitrine/labels.hpp>

#include "pool.hpp"
#include "stage.hpp"

namespace {

using namespace frameworks;

constexpr int threads = 4, calls = 60, messages = 3;
constexpr int holders = 3;  // two in the pool, one in a callback of gRPC

enum class Holds { nowhere, in_pool, in_callback };

/// One call on the server. Each of its callbacks comes on some thread of gRPC.
class Echo : public grpc::ServerGenericBidiReactor {
 public:
  Echo(Stage& stage, Pool& pool, const std::string& who, Holds holds)
      : pool_(pool), task_(stage, who), holds_(holds) {
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    const labels::Attach attached(labels_);
    task_.check();
    if (!ok) return Finish(grpc::Status::OK);
    if (holds_ == Holds::in_callback) hold();
    pool_.post(labels::bind([this] {
      task_.check();
      if (holds_ == Holds::in_pool) hold();
      const labels::Scope scope{step, "pool"};
      task_.check("pool");
      StartWrite(&message_);
    }));
  }
  void OnWriteDone(bool) override {
    const labels::Attach attached(labels_);
    task_.check();
    StartRead(&message_);
  }
  void OnDone() override {
    {
      const labels::Attach attached(labels_);
      task_.check();
    }
    task_.stage().finished();
    delete this;
  }

 private:
  void hold() {
    task_.hold();
    holds_ = Holds::nowhere;
  }

  Pool& pool_;
  Task task_;
  Holds holds_;
  grpc::ByteBuffer message_{};
  const labels::Set labels_ = labels::capture();  // of the call: each callback attaches them
};

class Service : public grpc::CallbackGenericService {
 public:
  Service(Stage& stage, Pool& pool) : stage_(stage), pool_(pool) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto sent = context->client_metadata().find("tenant");
    const std::string who(sent->second.data(), sent->second.size());
    const Holds holds = context->method() == "/echo/pool"       ? Holds::in_pool
                        : context->method() == "/echo/callback" ? Holds::in_callback
                                                                : Holds::nowhere;
    const labels::Scope scope{tenant, who};
    return new Echo(stage_, pool_, who, holds);
  }

 private:
  Stage& stage_;
  Pool& pool_;
};

grpc::ByteBuffer bytes() {
  const grpc::Slice slice("some bytes");
  return {&slice, 1};
}

/// One call of the client with several messages.
class Stream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(Stage& stage, std::latch& done, grpc::GenericStub& stub, const std::string& method,
         const std::string& who)
      : task_(stage, who), done_(done) {
    context_.AddMetadata("tenant", who);
    stub.PrepareBidiStreamingCall(&context_, method, {}, this);
    StartWrite(&sent_);
    StartCall();
  }
  void OnWriteDone(bool) override {
    const labels::Attach attached(labels_);
    task_.check();
    StartRead(&received_);
  }
  void OnReadDone(bool ok) override {
    const labels::Attach attached(labels_);
    task_.check();
    if (ok && --left_ == 0) return StartWritesDone();
    StartWrite(&sent_);
  }
  void OnDone(const grpc::Status& status) override {
    {
      const labels::Attach attached(labels_);
      task_.check();
      task_.stage().count_check(status.ok() && left_ == 0);
    }
    done_.count_down();
    delete this;
  }

 private:
  Task task_;
  std::latch& done_;
  grpc::ClientContext context_{};
  grpc::ByteBuffer sent_ = bytes(), received_{};
  int left_ = messages;
  const labels::Set labels_ = labels::capture();
};

/// One message each way, and a function for the end.
void call(Stage& stage, std::latch& done, grpc::GenericStub& stub, const std::string& who) {
  struct Call {
    Call(Stage& on, const std::string& by) : task(on, by) { context.AddMetadata("tenant", by); }
    Task task;
    grpc::ClientContext context{};
    grpc::ByteBuffer request = bytes(), response{};
  };
  auto call = std::make_shared<Call>(stage, who);
  stub.UnaryCall(&call->context, "/echo/once", {}, &call->request, &call->response,
                 labels::bind([call, &done](grpc::Status status) {
                   call->task.check();
                   call->task.stage().count_check(status.ok());
                   done.count_down();
                 }));
}

}  // namespace

int main() {
  Stage stage(calls, holders);
  Pool pool(threads);
  std::latch done(calls);
  Service service(stage, pool);
  const std::string address = "unix-abstract:vitrine-frameworks-" + std::to_string(getpid());
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));

  const auto start = [&](int i, const std::string& method) {
    const std::string who = "tenant-" + std::to_string(i);
    const labels::Scope scope{tenant, who};
    if (method.empty()) return call(stage, done, stub, who);
    new Stream(stage, done, stub, method, who);
  };
  start(0, "/echo/pool");
  start(1, "/echo/pool");
  for (int i = holders; i < calls; ++i) start(i, i % 2 == 0 ? "/echo/stream" : "");
  stage.wait_for(calls - holders);
  start(2, "/echo/callback");  // the last: it may hold the thread that the others need
  stage.show();
  done.wait();
  server->Shutdown();
  return stage.result(true);
}
