// Reading what is open to its end.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <tl/expected.hpp>

namespace vitrine {

/// What is left of a file, a pipe or a socket; `most` bytes where there is more. A signal interrupts it only once
/// `stop` is true. Error: the errno of read(2), EINTR where it was stopped.
tl::expected<std::string, int> read_all(int file, std::size_t most,
                                        const std::atomic<bool>* stop = nullptr);

}  // namespace vitrine
