// FaultDisk: a disk that loses power, for tests: a layer over SQLite's own files that remembers
// what of each was flushed and what was only written since.
//
// After a cut of the power a file has all that was flushed, and of each sector that was written
// since, what it had or what it got: by chance, and not in order. A file that was never flushed may
// be missing. It can also fail a flush, or be full. While one lives every database opened by its
// path goes through it; one at a time. Any thread.
// Source: https://sqlite.org/vfs.html
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace tutti::store::testing {

class FaultDisk {
 public:
  FaultDisk() : real_(sqlite3_vfs_find(nullptr)), vfs_(*real_) {
    vfs_.zName = "tutti-fault";
    vfs_.pAppData = this;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.xOpen = &Open;
    vfs_.xDelete = &Delete;
    vfs_.xAccess = [](sqlite3_vfs* vfs, const char* name, int flags, int* out) {
      return Of(vfs).real_->xAccess(Of(vfs).real_, name, flags, out);
    };
    vfs_.xFullPathname = [](sqlite3_vfs* vfs, const char* name, int size, char* out) {
      return Of(vfs).real_->xFullPathname(Of(vfs).real_, name, size, out);
    };
    CHECK(sqlite3_vfs_register(&vfs_, /*makeDflt=*/1) == SQLITE_OK);
  }
  ~FaultDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, 1);
  }
  FaultDisk(const FaultDisk&) = delete;
  FaultDisk& operator=(const FaultDisk&) = delete;

  std::atomic<bool> fails_flushes{false};
  std::atomic<bool> is_full{false};  // what needs more room than there is fails

  // Writes to a new folder the files as a power cut would leave them now.
  void Cut(const std::string& into, Random* random) {
    const std::lock_guard lock(mutex_);
    const double survive = random->Chance(0.5) ? 0.5 : random->Chance(0.5) ? 0.0 : 1.0;
    for (const auto& [path, image] : images_) {
      if (!image.flushed.has_value() && !random->Chance(survive)) continue;
      std::string bytes = image.flushed.value_or("");
      for (const Change& change : image.since) Apply(change, survive, random, &bytes);
      std::ofstream out(into + "/" + std::filesystem::path(path).filename().string(),
                        std::ios::binary | std::ios::trunc);
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      CHECK(out.good()) << into;
    }
  }
  // Forgets all files, as for another machine.
  void Forget() {
    const std::lock_guard lock(mutex_);
    images_.clear();
  }
  uint64_t flushes() const { return flushes_; }

 private:
  struct Change {
    bool truncates = false;  // to `at` bytes
    size_t at = 0;
    std::string bytes = {};
  };
  struct Image {
    std::optional<std::string> flushed;
    std::vector<Change> since;
  };
  struct File {
    sqlite3_file base;
    FaultDisk* disk;
    std::string* path;  // null: a temporary file
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static constexpr size_t kSector = 512;

  static FaultDisk& Of(sqlite3_vfs* vfs) { return *static_cast<FaultDisk*>(vfs->pAppData); }
  static File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  static void Put(const Change& change, size_t from, size_t to, std::string* bytes) {
    if (bytes->size() < change.at + to) bytes->resize(change.at + to, '\0');
    std::memcpy(bytes->data() + change.at + from, change.bytes.data() + from, to - from);
  }
  static void Apply(const Change& change, double survive, Random* random, std::string* bytes) {
    if (change.truncates) {
      if (random->Chance(survive)) bytes->resize(change.at, '\0');
      return;
    }
    for (size_t from = 0; from < change.bytes.size();) {
      const size_t to = std::min(change.bytes.size(),
                                 (change.at + from) / kSector * kSector + kSector - change.at);
      if (random->Chance(survive)) Put(change, from, to, bytes);
      from = to;
    }
  }

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* handle, int flags,
                  int* out_flags) {
    static const sqlite3_io_methods kMethods = Methods();
    FaultDisk& disk = Of(vfs);
    File& file = Of(handle);
    file.base.pMethods = nullptr;
    const int code = disk.real_->xOpen(disk.real_, name, file.real(), flags, out_flags);
    if (code != SQLITE_OK) return code;
    file.disk = &disk;
    file.path = name == nullptr ? nullptr : new std::string(name);
    file.base.pMethods = &kMethods;
    if (name == nullptr) return SQLITE_OK;
    const std::lock_guard lock(disk.mutex_);
    if (disk.images_.contains(name)) return SQLITE_OK;
    std::ifstream in(name, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    Image& image = disk.images_[name];
    if (!bytes.empty()) image.flushed = std::move(bytes);
    return SQLITE_OK;
  }
  static int Delete(sqlite3_vfs* vfs, const char* name, int sync) {
    FaultDisk& disk = Of(vfs);
    const std::lock_guard lock(disk.mutex_);
    disk.images_.erase(name);
    return disk.real_->xDelete(disk.real_, name, sync);
  }

  void Note(const File& file, Change change) {
    if (file.path != nullptr) images_[*file.path].since.push_back(std::move(change));
  }

  static sqlite3_io_methods Methods() {
    sqlite3_io_methods methods{};
    methods.iVersion = 1;  // no memory shared or mapped: the store asks for neither
    methods.xClose = [](sqlite3_file* file) {
      delete Of(file).path;
      return Of(file).real()->pMethods->xClose(Of(file).real());
    };
    methods.xRead = [](sqlite3_file* file, void* out, int bytes, sqlite3_int64 at) {
      return Of(file).real()->pMethods->xRead(Of(file).real(), out, bytes, at);
    };
    methods.xWrite = [](sqlite3_file* handle, const void* data, int bytes, sqlite3_int64 at) {
      File& file = Of(handle);
      const std::lock_guard lock(file.disk->mutex_);
      sqlite3_int64 size = 0;
      file.real()->pMethods->xFileSize(file.real(), &size);
      if (file.disk->is_full && at + bytes > size) return SQLITE_FULL;
      const int code = file.real()->pMethods->xWrite(file.real(), data, bytes, at);
      if (code != SQLITE_OK) return code;
      const auto* text = static_cast<const char*>(data);
      file.disk->Note(file, {.at = static_cast<size_t>(at),
                             .bytes = std::string(text, static_cast<size_t>(bytes))});
      return code;
    };
    methods.xTruncate = [](sqlite3_file* handle, sqlite3_int64 size) {
      File& file = Of(handle);
      const std::lock_guard lock(file.disk->mutex_);
      const int code = file.real()->pMethods->xTruncate(file.real(), size);
      if (code == SQLITE_OK)
        file.disk->Note(file, {.truncates = true, .at = static_cast<size_t>(size)});
      return code;
    };
    methods.xSync = [](sqlite3_file* handle, int flags) {
      File& file = Of(handle);
      if (file.disk->fails_flushes) return SQLITE_IOERR_FSYNC;
      const std::lock_guard lock(file.disk->mutex_);
      const int code = file.real()->pMethods->xSync(file.real(), flags);
      if (code != SQLITE_OK || file.path == nullptr) return code;
      ++file.disk->flushes_;
      Image& image = file.disk->images_[*file.path];
      if (!image.flushed.has_value()) image.flushed.emplace();
      for (const Change& change : image.since) {
        if (change.truncates) {
          image.flushed->resize(change.at, '\0');
        } else {
          Put(change, 0, change.bytes.size(), &*image.flushed);
        }
      }
      image.since.clear();
      return code;
    };
    methods.xFileSize = [](sqlite3_file* file, sqlite3_int64* size) {
      return Of(file).real()->pMethods->xFileSize(Of(file).real(), size);
    };
    methods.xLock = [](sqlite3_file* file, int kind) {
      return Of(file).real()->pMethods->xLock(Of(file).real(), kind);
    };
    methods.xUnlock = [](sqlite3_file* file, int kind) {
      return Of(file).real()->pMethods->xUnlock(Of(file).real(), kind);
    };
    methods.xCheckReservedLock = [](sqlite3_file* file, int* out) {
      return Of(file).real()->pMethods->xCheckReservedLock(Of(file).real(), out);
    };
    methods.xFileControl = [](sqlite3_file* file, int op, void* value) {
      // Rejects operations that could change a file without this layer.
      if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_NOTFOUND;
      return Of(file).real()->pMethods->xFileControl(Of(file).real(), op, value);
    };
    methods.xSectorSize = [](sqlite3_file* file) {
      return Of(file).real()->pMethods->xSectorSize(Of(file).real());
    };
    methods.xDeviceCharacteristics = [](sqlite3_file* file) {
      return Of(file).real()->pMethods->xDeviceCharacteristics(Of(file).real());
    };
    return methods;
  }

  sqlite3_vfs* const real_;
  sqlite3_vfs vfs_;
  std::mutex mutex_;
  std::map<std::string, Image> images_;  // by path
  std::atomic<uint64_t> flushes_{0};
};

}  // namespace tutti::store::testing
