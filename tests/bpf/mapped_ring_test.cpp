// The reader's end of a ring buffer, which a BPF program fills: each record once, in order and whole, also where one
// goes on at the buffer's beginning.
#include "bpf/mapped_ring.hpp"

#include <bpf/bpf.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"

namespace vitrine::bpf {
namespace {

constexpr std::size_t buffer = 64U << 10;

/// A buffer, and programs that send what is in a map as a record: of each length a program of its own, as the verifier
/// wants to know it.
class Ring {
 public:
  static constexpr int longest = 20'000;
  static constexpr int lengths[] = {1, 8, 13, 512, 4000, longest};

  Ring()
      : map_(::bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, buffer, nullptr)),
        record_(::bpf_map_create(BPF_MAP_TYPE_ARRAY, "record", 4, longest, 1, nullptr)) {
    for (const int length : lengths) programs_.emplace_back(load(length));
  }

  [[nodiscard]] int map() const { return map_.get(); }

  /// False: it has no room.
  bool send(std::size_t which, std::uint8_t fill) {
    const std::uint32_t only = 0;
    const std::vector<std::uint8_t> record(longest, fill);
    EXPECT_EQ(::bpf_map_update_elem(record_.get(), &only, record.data(), BPF_ANY), 0);
    bpf_test_run_opts run{};
    run.sz = sizeof run;
    EXPECT_EQ(::bpf_prog_test_run_opts(programs_[which].get(), &run), 0) << std::strerror(errno);
    return static_cast<std::int32_t>(run.retval) == 0;
  }

 private:
  int load(int length) const {
    const bpf_insn program[] = {
        {BPF_LD | BPF_DW | BPF_IMM, BPF_REG_2, BPF_PSEUDO_MAP_VALUE, 0, record_.get()},
        {0, 0, 0, 0, 0},
        {BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map_.get()},
        {0, 0, 0, 0, 0},
        {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, length},
        {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_4, 0, 0, 0},
        {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ringbuf_output},
        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
    };
    bpf_prog_load_opts options{};
    options.sz = sizeof options;
    options.prog_flags = BPF_F_SLEEPABLE;
    return ::bpf_prog_load(BPF_PROG_TYPE_SYSCALL, "send", "GPL", program, std::size(program),
                           &options);
  }

  FileDescriptor map_, record_;
  std::vector<FileDescriptor> programs_;
};

struct Record {
  std::size_t length;
  std::uint8_t fill;
  bool operator==(const Record&) const = default;
};

struct Taking {
  std::deque<Record> records;
  std::size_t most = ~std::size_t{0};

  static bool take(void* context, std::span<const std::byte> record) {
    auto& taking = *static_cast<Taking*>(context);
    const auto fill = static_cast<std::uint8_t>(record.front());
    EXPECT_TRUE(std::ranges::all_of(record, [&](std::byte one) { return one == record.front(); }));
    taking.records.push_back({record.size(), fill});
    return --taking.most != 0;
  }
};

TEST(MappedRing, HandsOverEachRecordOnceInOrder) {
  Ring ring;
  ASSERT_GE(ring.map(), 0) << std::strerror(errno);
  MappedRing reader(ring.map(), buffer);
  ASSERT_TRUE(reader.open());
  std::mt19937 random(1);
  std::deque<Record> sent;
  std::size_t bytes = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    for (std::size_t count = random() % 12; count > 0; --count) {
      const std::size_t which = random() % std::size(Ring::lengths);
      const auto fill = static_cast<std::uint8_t>(random() % 251);
      const auto length = static_cast<std::size_t>(Ring::lengths[which]);
      if (ring.send(which, fill))
        sent.push_back({length, fill});
      else
        ++refused;
      bytes += length;
    }
    Taking taking;
    taking.most = random() % 3 == 0 ? 1 + random() % 4 : ~std::size_t{0};
    const std::size_t wanted = std::min(taking.most, sent.size());
    const bool is_stopped = taking.most <= sent.size();
    EXPECT_EQ(reader.take_all(Taking::take, &taking),
              is_stopped ? MappedRing::Taken::stopped : MappedRing::Taken::all);
    ASSERT_EQ(taking.records.size(), wanted);
    for (const Record& record : taking.records) {
      ASSERT_EQ(record, sent.front());
      sent.pop_front();
    }
  }
  EXPECT_GT(bytes, 20 * buffer);  // around it, many times
  EXPECT_GT(refused, 0U);         // and full
}

/// The pages of a buffer, as this test writes them.
class PagesOfBuffer {
 public:
  PagesOfBuffer()
      : file_(::memfd_create("ring", MFD_CLOEXEC)),
        page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(2 * page_ + 2 * buffer)), 0);
  }
  [[nodiscard]] int file() const { return file_.get(); }

  /// A record of one word; `bits`: beside its length.
  void put(std::uint32_t bits) {
    const std::uint32_t header[] = {8U | bits, 0};
    write(2 * page_ + end_, header, sizeof header);
    const std::uint64_t word = 0x0101010101010101ULL;
    write(2 * page_ + end_ + sizeof header, &word, sizeof word);
    end_ += 16;
    write(page_, &end_, sizeof end_);
  }
  void finish(std::size_t number) {
    const std::uint32_t length = 8;
    write(2 * page_ + number * 16, &length, sizeof length);
  }

 private:
  void write(std::size_t at, const void* bytes, std::size_t size) const {
    EXPECT_EQ(::pwrite(file_.get(), bytes, size, static_cast<off_t>(at)),
              static_cast<ssize_t>(size));
  }

  FileDescriptor file_;
  std::size_t page_;
  std::uint64_t end_ = 0;
};

// Then what is behind it has not been read, though it may be of before.
TEST(MappedRing, ARecordThatIsBeingWrittenIsNotTheEnd) {
  PagesOfBuffer pages;
  MappedRing reader(pages.file(), buffer);
  ASSERT_TRUE(reader.open());
  pages.put(0);
  pages.put(BPF_RINGBUF_BUSY_BIT);
  pages.put(0);
  Taking taking;
  EXPECT_EQ(reader.take_all(Taking::take, &taking), MappedRing::Taken::unready);
  EXPECT_EQ(taking.records.size(), 1U);
  pages.finish(1);
  EXPECT_EQ(reader.take_all(Taking::take, &taking), MappedRing::Taken::all);
  EXPECT_EQ(taking.records.size(), 3U);
}

std::size_t mapped_of_buffers() {
  std::ifstream maps("/proc/self/maps");
  std::size_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("bpf-map") == std::string::npos) continue;
    const std::size_t dash = line.find('-');
    bytes += std::stoul(line.substr(dash + 1), nullptr, 16) - std::stoul(line, nullptr, 16);
  }
  return bytes;
}

TEST(MappedRing, MapsWhatItReaches) {
  constexpr std::size_t large = 8U << 20;
  const std::size_t before = mapped_of_buffers();
  const FileDescriptor map(::bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, large, nullptr));
  ASSERT_TRUE(map) << std::strerror(errno);
  MappedRing reader(map.get(), large);
  ASSERT_TRUE(reader.open());
  Taking taking;
  EXPECT_EQ(reader.take_all(Taking::take, &taking), MappedRing::Taken::all);
  EXPECT_LT(mapped_of_buffers() - before, large / 8);
}

TEST(MappedRing, NoRingIsAnError) {
  const FileDescriptor map(::bpf_map_create(BPF_MAP_TYPE_ARRAY, "none", 4, 8, 1, nullptr));
  ASSERT_TRUE(map) << std::strerror(errno);
  MappedRing reader(map.get(), buffer);
  EXPECT_FALSE(reader.open());
}

}  // namespace
}  // namespace vitrine::bpf
