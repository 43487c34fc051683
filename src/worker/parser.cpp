#include "worker/parser.hpp"

namespace vitrine::worker {
namespace {

/// Does what it is asked to: a question begins with the task's address.
class Tasks final : public Service {
 public:
  std::vector<std::byte> answer(std::span<const std::byte> question, FileDescriptor file) override {
    detail::Erased task = nullptr;
    std::memcpy(&task, question.data(), sizeof task);
    return task(question.subspan(sizeof task), std::move(file));
  }
};

}  // namespace

Parser& Parser::of_this_thread() {
  thread_local Parser parser;
  return parser;
}

void Parser::set_limits(const Limits& limits) {
  limits_ = limits;
  worker_.reset();
}

Result<std::vector<std::byte>> Parser::send(std::span<const std::byte> question, int file,
                                            const Open& open) {
  if (question.size() > question_bytes) return fail(ErrorCode::limit, "the request is too large");
  // One that ended between two files ended for no fault of the next.
  if (worker_ && !worker_->is_there()) worker_.reset();
  if (!worker_)
    worker_ =
        TRY(Worker::start("vitrine-files", limits_, [] { return std::make_unique<Tasks>(); }));
  auto answer = worker_->ask(question, file, answer_bytes, open);
  // What one file left behind is not the next one's memory.
  if (!answer || worker_->memory() > kept_bytes) worker_.reset();
  return answer;
}

tl::unexpected<Error> Parser::no_sense() {
  if (!worker_) return fail(ErrorCode::failed, "its parser returned an invalid response");
  auto error = worker_->made_no_sense();
  worker_.reset();
  return error;
}

}  // namespace vitrine::worker
