// What comes over the socket from a worker that a hostile file has taken over: any bytes.
#include "sandbox/channel.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include "input.hpp"
#include "symbol/symboliser.hpp"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most = 4096;
  int pair[2];
  fuzz::require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  FileDescriptor its(pair[1]);
  sandbox::Channel channel{FileDescriptor(pair[0])};
  const std::size_t given = std::min<std::size_t>(size, 32 * 1024);  // what a socket has room for
  fuzz::require(::write(its.get(), data, given) == static_cast<ssize_t>(given));
  its = {};
  const auto until = sandbox::Channel::Clock::now() + std::chrono::seconds(5);
  std::size_t taken = 0;
  while (auto message = channel.receive(most, until)) {
    fuzz::require(message->bytes.size() <= most && !message->descriptor);
    taken += 8 + message->bytes.size();
    if (const auto request = pack::unpack<symbol::Request>(message->bytes))
      fuzz::require(pack::pack(*request) == message->bytes);
    if (const auto resolved = symbol::decode_response(message->bytes, 3, {}))
      fuzz::require(resolved->frames.size() == 3);
  }
  fuzz::require(taken <= given);
  return 0;
}
