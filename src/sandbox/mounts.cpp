#include "sandbox/mounts.hpp"

#include <fcntl.h>
#include <linux/magic.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/per_thread.hpp"
#include "sandbox/files.hpp"

namespace vitrine::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

/// What is known of the mounts is good for as long.
constexpr std::chrono::milliseconds mounts_known_for{500};

/// In memory, on disks, and the kernel's own: none asks a program or another machine.
constexpr std::string_view local_types[] = {
    "bcachefs",  "bdev",     "bfs",        "binfmt_misc", "bpf",       "btrfs",    "cgroup",
    "cgroup2",   "configfs", "cramfs",     "debugfs",     "devpts",    "devtmpfs", "efivarfs",
    "erofs",     "exfat",    "ext2",       "ext3",        "ext4",      "f2fs",     "fusectl",
    "hugetlbfs", "iso9660",  "jfs",        "mqueue",      "msdos",     "nilfs2",   "nsfs",
    "ntfs3",     "overlay",  "proc",       "pstore",      "ramfs",     "reiserfs", "resctrl",
    "romfs",     "rootfs",   "rpc_pipefs", "securityfs",  "selinuxfs", "squashfs", "sysfs",
    "tmpfs",     "tracefs",  "ubifs",      "udf",         "vfat",      "xfs",      "zfs"};

/// The mounts of vitrine's namespace.
class Mounts {
 public:
  static Mounts& now() {
    Mounts& mounts = PerThread<Mounts>::get();
    if (Clock::now() - mounts.read_ > mounts_known_for) mounts.read();
    return mounts;
  }

  [[nodiscard]] bool is_in_namespace(std::uint64_t mount) const {
    return local_.contains(mount) || others_.contains(mount);
  }
  [[nodiscard]] bool is_local(std::uint64_t mount) const { return local_.contains(mount); }
  [[nodiscard]] bool all_local() const { return !local_.empty() && others_.empty(); }

 private:
  /// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
  void read() {
    local_.clear();
    others_.clear();
    std::ifstream file("/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
      const std::size_t end = line.find(" - ");
      if (end == line.npos) continue;
      const std::size_t type = end + 3;
      const std::string_view name =
          std::string_view(line).substr(type, line.find(' ', type) - type);
      const bool is_local = std::ranges::find(local_types, name) != std::ranges::end(local_types);
      (is_local ? local_ : others_).insert(std::strtoull(line.c_str(), nullptr, 10));
    }
    read_ = Clock::now();
  }

  std::set<std::uint64_t> local_, others_;  // by the kernel's number
  Clock::time_point read_{};
};

constexpr std::uint32_t local_magics[] = {0xca451a4e /* bcachefs */,
                                          BTRFS_SUPER_MAGIC,
                                          CRAMFS_MAGIC,
                                          EXT4_SUPER_MAGIC,
                                          0xe0f5e1e2 /* erofs */,
                                          F2FS_SUPER_MAGIC,
                                          HUGETLBFS_MAGIC,
                                          ISOFS_SUPER_MAGIC,
                                          MSDOS_SUPER_MAGIC,
                                          NILFS_SUPER_MAGIC,
                                          OVERLAYFS_SUPER_MAGIC,
                                          PROC_SUPER_MAGIC,
                                          RAMFS_MAGIC,
                                          REISERFS_SUPER_MAGIC,
                                          SQUASHFS_MAGIC,
                                          SYSFS_MAGIC,
                                          TMPFS_MAGIC,
                                          UDF_SUPER_MAGIC,
                                          0x2011bab0 /* exfat */,
                                          0x58465342 /* xfs */,
                                          0x3153464a /* jfs */,
                                          0x2fc12fc1 /* zfs */,
                                          0x7366746e /* ntfs3 */};

/// Of other machines.
constexpr std::uint32_t network_magics[] = {NFS_SUPER_MAGIC, 0xff534d42 /* cifs */,
                                            0xfe534d42 /* smb2 */, CEPH_SUPER_MAGIC};

}  // namespace

bool responds(int handle) {
  const PlaceIdentity place = place_identity(handle);
  return place.mount != 0 && Mounts::now().is_local(place.mount);
}

bool all_respond(int directory) {
  if (!Mounts::now().all_local()) return false;
  return directory == AT_FDCWD || Mounts::now().is_in_namespace(place_identity(directory).mount);
}

Server server_of(std::uint32_t magic) {
  const auto is_one_of = [magic](std::span<const std::uint32_t> magics) {
    return std::ranges::find(magics, magic) != magics.end();
  };
  if (is_one_of(local_magics)) return Server::none;
  return is_one_of(network_magics) ? Server::machine : Server::program;
}

}  // namespace vitrine::sandbox
