// A client of the agent's pages.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace vitrine::test {

inline FileDescriptor connection_to(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  return socket;
}

/// The whole response to these bytes.
inline std::string response_to(std::uint16_t port, std::string_view request) {
  const FileDescriptor socket = connection_to(port);
  EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string response;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::recv(socket.get(), bytes, sizeof bytes, 0)) > 0;)
    response.append(bytes, static_cast<std::size_t>(got));
  return response;
}

}  // namespace vitrine::test
