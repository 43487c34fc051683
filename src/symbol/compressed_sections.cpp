#include "symbol/compressed_sections.hpp"

#include <elf.h>
#include <gelf.h>
#include <libdeflate.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "base/memory.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::symbol {
namespace {

/// No stream holds more for each of its bytes.
constexpr std::uint64_t max_ratio = 1032;

/// Calls `act` with each compressed section that has content, its header and its name.
template <class Act>
void visit_compressed(Elf* elf, Act act) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header{};
    if (gelf_getshdr(section, &header) == nullptr || (header.sh_flags & SHF_COMPRESSED) == 0 ||
        header.sh_type == SHT_NOBITS)
      continue;
    if (const char* name = elf_strptr(elf, names, header.sh_name); name != nullptr)
      act(section, header, std::string_view(name));
  }
}

/// By libdw, unless it is hidden.
bool is_read(std::string_view section) {
  constexpr std::string_view all[] = {
      ".debug_info",        ".debug_types", ".debug_abbrev",  ".debug_aranges", ".debug_line",
      ".debug_line_str",    ".debug_str",   ".debug_addr",    ".debug_ranges",  ".debug_rnglists",
      ".debug_str_offsets", ".debug_loc",   ".debug_loclists"};
  return std::ranges::find(all, section) != std::end(all);
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* one) const { libdeflate_free_decompressor(one); }
};
using Decompressor = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;
using Bytes = std::span<const std::byte>;

/// Whether the stream is exactly that of `into`.
bool inflate_all(libdeflate_decompressor* decompressor, Bytes stream, std::span<std::byte> into) {
  std::size_t taken = 0;
  return libdeflate_zlib_decompress_ex(decompressor, stream.data(), stream.size(), into.data(),
                                       into.size(), &taken, nullptr) == LIBDEFLATE_SUCCESS &&
         taken == stream.size();
}

}  // namespace

// InflatedSections::Growing: a section that is inflated from its beginning, as far as it is needed.

class InflatedSections::Growing {
 public:
  /// Null: this is not possible, or not worth it.
  static std::unique_ptr<Growing> begin(std::string_view name, Bytes stream, std::size_t size);

  Growing(std::string_view name, Bytes stream, std::span<std::byte> content)
      : name_(name), stream_(stream), content_(content) {
    all().push_back(this);
  }
  ~Growing() {
    std::erase(all(), this);
    mapped -= ready_;
    ::munmap(content_.data(), content_.size());
    if (is_begun_) ::inflateEnd(&zlib_);
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  [[nodiscard]] std::byte* content() const { return content_.data(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_broken() const { return is_broken_; }

  enum class Reach : std::uint8_t {
    at_least,  ///< more will be wanted soon
    until      ///< it is known that no more is wanted soon
  };
  /// All before `end` is there then, or the section is broken; or it is left to be inflated when it is read.
  void grow(std::size_t end, Reach reach);

  static std::size_t mapped;  ///< of all

 private:
  // Of its content: what zlib inflates, in pieces, and what libdeflate takes no longer for as a whole.
  static constexpr std::size_t part_by_zlib = 4;
  /// Beginnings by libdeflate, which starts anew for each, before it inflates all.
  static constexpr int max_beginnings = 2;
  static constexpr std::size_t fewest = 256U << 10;
  /// No part of a page.
  static inline const std::size_t piece =
      std::max<std::size_t>(32U << 10, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));

  static std::vector<Growing*>& all() {
    static auto* const instance = new std::vector<Growing*>;  // the handler may outlive all else
    return *instance;
  }
  static void on_fault(int signal, siginfo_t* info, void* context);
  bool make_ready(std::size_t end);
  bool inflate_to(std::size_t end);
  bool inflate_again_to(libdeflate_decompressor* decompressor, std::size_t end);

  std::string name_;
  Bytes stream_;
  std::span<std::byte> content_;  ///< its pages, of which `ready_` bytes can be read
  std::size_t ready_ = 0;
  int beginnings_ = 0;
  bool is_begun_ = false, is_broken_ = false;
  z_stream zlib_{};
  static struct sigaction before_;
};

std::size_t InflatedSections::Growing::mapped = 0;
struct sigaction InflatedSections::Growing::before_ {};

std::unique_ptr<InflatedSections::Growing> InflatedSections::Growing::begin(std::string_view name,
                                                                            Bytes stream,
                                                                            std::size_t size) {
  if (size < fewest || stream.size() > UINT_MAX || size > UINT_MAX) return nullptr;
  void* const pages = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  auto growing =
      std::make_unique<Growing>(name, stream, std::span(static_cast<std::byte*>(pages), size));
  static const bool is_handled = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGSEGV, &action, &before_) == 0;
  }();
  // With its first piece zlib has allocated all that it needs.
  if (is_handled) growing->grow(1, Reach::at_least);
  if (!is_handled || growing->is_broken_) return nullptr;
  return growing;
}

/// A page of a section that is needed, or what it would have been without this.
void InflatedSections::Growing::on_fault(int, siginfo_t* info, void*) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Growing* one : all()) {
    const std::size_t at = address - reinterpret_cast<std::uintptr_t>(one->content_.data());
    if (at < one->ready_ || at >= one->content_.size()) continue;
    one->grow(at + 1, Reach::at_least);
    errno = saved;
    return;
  }
  ::sigaction(SIGSEGV, &before_, nullptr);  // and the instruction fails again
  errno = saved;
}

/// With small pages, all at once: to touch one after the other takes longer.
bool InflatedSections::Growing::make_ready(std::size_t end) {
  std::byte* const from = content_.data() + ready_;
  if (::mprotect(from, end - ready_, PROT_READ | PROT_WRITE) != 0) return false;
#ifdef MADV_POPULATE_WRITE
  ::madvise(from, end - ready_, MADV_POPULATE_WRITE);
#endif
  mapped += end - ready_;
  ready_ = end;
  return true;
}

bool InflatedSections::Growing::inflate_to(std::size_t end) {
  if (!is_begun_) {
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stream_.data()));
    zlib_.avail_in = static_cast<uInt>(stream_.size());
    if (::inflateInit(&zlib_) != Z_OK) return false;
    is_begun_ = true;
  }
  const std::size_t from = ready_;
  if (!make_ready(end)) return false;
  zlib_.next_out = reinterpret_cast<Bytef*>(content_.data() + from);
  zlib_.avail_out = static_cast<uInt>(end - from);
  return ::inflate(&zlib_, Z_SYNC_FLUSH) == Z_OK && zlib_.avail_out == 0;
}

/// From the beginning. libdeflate writes in order, and stops where a match has no room, at most 258 bytes before the
/// end; it does not promise that, so it is looked at. False: it does not do so, or the section is broken.
bool InflatedSections::Growing::inflate_again_to(libdeflate_decompressor* decompressor,
                                                 std::size_t end) {
  constexpr std::size_t looked_at = 4096, longest_match = 258;
  if (content_.size() - end <= piece || !make_ready(end + piece)) return false;
  const std::span<std::byte> part = content_.first(ready_);
  std::size_t taken = 0;
  const auto result = libdeflate_zlib_decompress_ex(decompressor, stream_.data(), stream_.size(),
                                                    part.data(), part.size(), &taken, nullptr);
  const auto last = part.last(looked_at).first(looked_at - longest_match);
  const bool is_written =
      std::ranges::any_of(last, [](std::byte one) { return one != std::byte{}; });
  if (::mprotect(content_.data() + end, piece, PROT_NONE) != 0) return false;
  mapped -= piece;
  ready_ = end;
  return result == LIBDEFLATE_INSUFFICIENT_SPACE && is_written;
}

void InflatedSections::Growing::grow(std::size_t end, Reach reach) {
  end = std::min(end, content_.size());
  if (end <= ready_ || is_broken_) return;
  const std::size_t wanted = align_up(end, piece);
  const std::size_t by_zlib = content_.size() / part_by_zlib;
  if (wanted <= by_zlib && reach == Reach::until) return;  // a piece at a time is as well
  if (wanted <= by_zlib) {
    is_broken_ = !inflate_to(wanted);
  } else {
    const Decompressor decompressor(libdeflate_alloc_decompressor());
    if (decompressor == nullptr) ::_exit(sandbox::out_of_memory);
    const bool may_end =
        reach == Reach::until && wanted < content_.size() && beginnings_++ < max_beginnings;
    const bool is_enough = may_end && inflate_again_to(decompressor.get(), wanted);
    is_broken_ = !is_enough && (!make_ready(content_.size()) ||
                                !inflate_all(decompressor.get(), stream_, content_));
  }
  // It must be readable, whatever is there; where memory runs out, it cannot be.
  if (is_broken_ && ready_ < content_.size() && !make_ready(content_.size()))
    ::_exit(sandbox::out_of_memory);
}

void hide_unused_sections(Elf* elf) {
  constexpr std::string_view unused[] = {
      ".debug_loc",      ".debug_loclists",     ".debug_frame",
      ".debug_macro",    ".debug_macinfo",      ".debug_pubnames",
      ".debug_pubtypes", ".debug_gnu_pubnames", ".debug_gnu_pubtypes"};
  visit_compressed(elf, [&](Elf_Scn* section, GElf_Shdr& header, std::string_view name) {
    if (std::ranges::find(unused, name) == std::end(unused)) return;
    header.sh_type = SHT_NOBITS;
    gelf_update_shdr(section, &header);
  });
}

std::string still_compressed(Elf* elf) {
  std::string first;
  visit_compressed(elf, [&](Elf_Scn*, const GElf_Shdr&, std::string_view name) {
    if (first.empty() && is_read(name)) first = name;
  });
  return first;
}

void InflatedSections::Free::operator()(void* bytes) const {
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc)
}

InflatedSections::InflatedSections() = default;
InflatedSections::InflatedSections(InflatedSections&&) noexcept = default;
InflatedSections& InflatedSections::operator=(InflatedSections&&) noexcept = default;
InflatedSections::~InflatedSections() = default;

InflatedSections::InflatedSections(Elf* elf) {
  Decompressor decompressor;
  const std::size_t header_size = gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT);
  visit_compressed(elf, [&](Elf_Scn* section, GElf_Shdr& header, std::string_view name) {
    GElf_Chdr packed{};
    if (!is_read(name) || gelf_getchdr(section, &packed) == nullptr ||
        packed.ch_type != ELFCOMPRESS_ZLIB)
      return;
    Elf_Data* const data = elf_getdata(section, nullptr);
    Elf_Data* const raw = elf_rawdata(section, nullptr);
    if (data == nullptr || raw == nullptr || raw->d_buf == nullptr || raw->d_size <= header_size)
      return;
    const auto stream =
        Bytes(static_cast<const std::byte*>(raw->d_buf), raw->d_size).subspan(header_size);
    if (packed.ch_size == 0 || packed.ch_size / max_ratio > stream.size()) return;
    void* inflated = nullptr;
    if (auto growing = Growing::begin(name, stream, packed.ch_size)) {
      inflated = growing->content();
      growing_.push_back(std::move(growing));
    } else {
      if (decompressor == nullptr) decompressor.reset(libdeflate_alloc_decompressor());
      // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): as bytes of new[], without values
      std::unique_ptr<void, Free> content(std::malloc(packed.ch_size));
      if (decompressor == nullptr || content == nullptr ||
          !inflate_all(decompressor.get(), stream,
                       {static_cast<std::byte*>(content.get()), packed.ch_size}))
        return;
      inflated = content.get();
      contents_.push_back(std::move(content));
    }
    // libelf has read the section, and does not do so again: this is its content from now on.
    for (Elf_Data* const known : {data, raw}) {
      known->d_buf = inflated;
      known->d_size = packed.ch_size;
      known->d_type = ELF_T_BYTE;
    }
    header.sh_flags &= ~GElf_Xword{SHF_COMPRESSED};
    gelf_update_shdr(section, &header);
  });
}

void InflatedSections::expect(std::string_view section, std::size_t bytes) {
  for (const auto& growing : growing_)
    if (growing->name() == section) growing->grow(bytes, Growing::Reach::until);
}

std::string InflatedSections::broken() const {
  const auto broken =
      std::ranges::find_if(growing_, [](const auto& one) { return one->is_broken(); });
  return broken == growing_.end() ? std::string() : (*broken)->name();
}

std::size_t InflatedSections::mapped_bytes() {
  return Growing::mapped;
}

}  // namespace vitrine::symbol
