// ObjectLocks: several object steps over the same objects, for several providers, run one after another.
//
// A step reads an object, and later renames a new one over it. What another step renamed there in between
// would be lost, without an error. So a step locks every object before it reads any, until its last rename.
//
// - A lock belongs to an inode, and a rename gives the object another one. Hence a step that got a lock
//   compares the path's inode with the locked one, and begins anew if they differ. A new inode is locked
//   before it is renamed: no step reads an object that another step may still put back.
// - Every step locks in the order of the inodes' numbers, whatever the order and the names of its objects,
//   so steps do not wait for each other in a circle. It locks its new inodes without waiting.
// - Locks are write locks of open files (F_OFD_SETLKW). A process can hold up a step only if it can write to
//   an object. A step does not lock an object that it cannot write to: it cannot overwrite other steps'
//   work there. A lock ends with its process. NFS has these locks, too.
// - A file system without locks is used without: steps must not run at the same time there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::usdt {

class ObjectLocks {
 public:
  /// Waits until no other step holds any of these files. What is no file, or cannot be written to, is
  /// left to the code that opens it. To be called once. Errors: limit (too many open files), failed (another
  /// program keeps replacing one).
  Result<void> lock(std::span<const std::string> paths);

  /// Locks a new file, open for writing, that no other process knows yet. The lock is released when that is
  /// closed.
  static void lock_new(int file);

 private:
  std::vector<FileDescriptor> files_;
};

}  // namespace vitrine::usdt
