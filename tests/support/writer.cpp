#include "support/writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace vitrine::test {
namespace {

std::string from_hex(const std::string& digits) {
  std::string bytes;
  if (digits == "-") return bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<std::string> numbered(const std::string& kind, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(kind + "_" + std::to_string(i) + ".so");
  return names;
}

}  // namespace

std::vector<WriterSpec> location_matrix() {
  const std::vector<std::string> aligns{"8", "16", "64", "4096"};
  const std::vector<std::string> models{"tlsdesc", "gd", "ie"};
  std::vector<WriterSpec> rows;
  for (const std::string libc : {"glibc", "musl"}) {
    for (const std::string kind : {"pie", "nopie", "static", "staticpie"})
      for (const auto& align : aligns) {
        const std::string name = libc + "_exe_" + kind + "_a" + align;
        rows.push_back({name, "writer_" + name, "", {}, ""});
      }
    const std::string plain = "writer_" + libc + "_plain";
    const std::string needed = "writer_" + libc + "_needed";
    for (const auto& model : models)
      for (const auto& align : aligns) {
        const std::string slots = model + "-a" + align;
        const std::string suffix = "_" + model + "_a" + align;
        rows.push_back({libc + "_needed" + suffix, needed, slots, {}, ""});
        if (libc == "musl" && model == "ie") continue;  // its loader refuses that
        if (model == "ie" && align == "4096")
          continue;  // no room is reserved for that: refused too
        rows.push_back({libc + "_dlopen" + suffix, plain, "", {}, slots});
        rows.push_back({libc + "_exhausted" + suffix, plain, "", numbered("filler", 7), slots});
        rows.push_back({libc + "_many" + suffix, plain, "", numbered("extra", 20), slots});
      }
  }
  for (const std::string linker : {"gold", "lld", "mold"}) {
    rows.push_back({"glibc_exe_" + linker, "writer_glibc_exe_" + linker, "", {}, ""});
    rows.push_back({"glibc_needed_" + linker, "writer_glibc_needed", "tlsdesc-" + linker, {}, ""});
    rows.push_back({"glibc_dlopen_" + linker, "writer_glibc_plain", "", {}, "tlsdesc-" + linker});
  }
  for (const std::string slots : {"gd-clang", "gd-symbolic", "tlsdesc-sysv", "tlsdesc-high"}) {
    rows.push_back({"glibc_needed_" + slots, "writer_glibc_needed", slots, {}, ""});
    rows.push_back({"glibc_dlopen_" + slots, "writer_glibc_plain", "", {}, slots});
  }
  for (const std::string kind : {"pic", "nodebug"})
    rows.push_back({"glibc_exe_" + kind, "writer_glibc_exe_" + kind, "", {}, ""});
  for (WriterSpec& row : rows) std::replace(row.name.begin(), row.name.end(), '-', '_');
  return rows;
}

std::vector<WriterSpec> format_matrix() {
  std::vector<WriterSpec> rows;
  for (const std::string format : {"v0", "draft_a", "draft_b", "draft_c", "draft_d", "elastic"}) {
    rows.push_back({"glibc_exe_" + format, "writer_glibc_exe_" + format, "", {}, ""});
    for (const std::string libc : {"glibc", "musl"}) {
      rows.push_back({libc + "_needed_" + format, "writer_" + libc + "_needed", format, {}, ""});
      rows.push_back({libc + "_dlopen_" + format, "writer_" + libc + "_plain", "", {}, format});
    }
  }
  return rows;
}

std::string Writer::path(const std::string& relative) {
  return std::string(VITRINE_WRITERS) + "/" + relative;
}

std::string Writer::slot_library(const std::string& name) {
  return path("slots/" + name + "/libcustomlabels_slot.so");
}

Writer Writer::start_bare(const WriterSpec& spec, std::vector<std::string> command_prefix) {
  ChildOptions options;
  options.capture_stderr = false;
  if (!spec.needed.empty())
    options.env.push_back("LD_LIBRARY_PATH=" + path("slots/" + spec.needed));
  command_prefix.push_back(path(spec.program));
  Writer writer(Child::spawn(std::move(command_prefix), std::move(options)));
  writer.take_answer();
  return writer;
}

Writer Writer::start(const WriterSpec& spec) {
  Writer writer = start_bare(spec);
  const std::string slots = spec.library.empty() ? "-" : slot_library(spec.library);
  writer.command("thread early");
  writer.command("thread early-idle");
  // Local: they all name their variable alike, and each is to use its own.
  for (const auto& filler : spec.fillers) writer.command("local " + path("slots/" + filler));
  if (!spec.library.empty()) writer.command("open " + slots);
  writer.command("thread late");
  writer.command("thread late-idle");
  for (const char* name : {"main", "early", "late"})
    writer.command(std::string("publish ") + name + " " + slots);
  return writer;
}

void Writer::command(const std::string& line) {
  std::istringstream words(line);
  std::string verb, name;
  words >> verb >> name >> library_;
  child_.write(line + "\n");
  take_answer();
  if (verb == "close")
    std::erase_if(slots_, [&](const auto& slot) { return slot.second.library == name; });
}

void Writer::take_answer() {
  for (const std::string& line : child_.read_until("ready")) take(line);
}

void Writer::take(const std::string& line) {
  std::istringstream words(line);
  std::string what, address;
  pid_t tid = 0;
  words >> what;
  if (what == "failed") {
    ADD_FAILURE() << "the writer says: " << line;
    return;
  }
  words >> tid;
  if (what == "gone") {
    std::erase_if(threads_, [&](const ThreadTruth& thread) { return thread.tid == tid; });
    std::erase_if(slots_, [&](const auto& slot) { return slot.first.first == tid; });
    return;
  }
  if (what == "thread") {
    std::string name;
    words >> address >> name;
    threads_.push_back({tid, std::stoull(address, nullptr, 16), name});
    return;
  }
  std::string format;
  if (what == "slot") words >> format;
  words >> address;
  const std::uint64_t at = std::stoull(address, nullptr, 16);
  SlotTruth& slot = slots_[{tid, at}];
  if (what == "slot") {
    slot = {tid, format, at, library_, {}, std::nullopt};
  } else if (what == "label") {
    std::string key, value;
    words >> key >> value;
    slot.labels.emplace_back(from_hex(key), from_hex(value));
  } else if (what == "trace") {
    TraceTruth trace;
    words >> trace.trace_id >> trace.span_id >> trace.flags;
    slot.trace = trace;
  } else {
    ADD_FAILURE() << "not a truth line: " << line;
  }
}

const ThreadTruth& Writer::thread(const std::string& name) const {
  const auto found = std::find_if(threads_.begin(), threads_.end(),
                                  [&](const ThreadTruth& thread) { return thread.name == name; });
  if (found == threads_.end()) throw std::runtime_error("the writer has no thread " + name);
  return *found;
}

std::vector<SlotTruth> Writer::slots() const {
  std::vector<SlotTruth> all;
  for (const auto& [where, slot] : slots_) all.push_back(slot);
  return all;
}

}  // namespace vitrine::test
