// Mounts: which file systems respond by themselves, and which ask a program or another machine.
#pragma once

#include <cstdint>

namespace vitrine::sandbox {

/// Whether an open file (O_PATH) is on a file system that is assumed to respond. Asks no server.
bool responds(int handle);
/// Whether all mounts that paths below this directory lead to are; false, too: that is not known.
bool all_respond(int directory);

/// What a file system asks for the bytes of a file.
enum class Server : std::uint8_t {
  none,     ///< it is in memory, on a disk, or the kernel's own
  machine,  ///< another one: reading and closing there ends when the reader is killed
  program   ///< or not known
};

/// `magic`: as statfs(2) has it, which asks the server, too.
Server server_of(std::uint32_t magic);

}  // namespace vitrine::sandbox
