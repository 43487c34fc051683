// What an exporter reports.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "export/exporter.hpp"

namespace vitrine::test {

/// All notes until one has `text`, or a while has passed: the first tries may fail in other ways, as
/// a server that closes a connection at once may be faster than its own words.
inline std::string notes_until(exporter::Exporter& exporter, const std::string& text) {
  std::string notes;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (notes.find(text) == std::string::npos && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (const std::string& note : exporter.take_notes()) notes += note + '\n';
  }
  return notes;
}

}  // namespace vitrine::test
