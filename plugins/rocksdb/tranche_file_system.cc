// RocksDB's files in a Tranche store, without a file system of the kernel. RocksDB finds this by the URI of a store: `--fs_uri=tranche://…`.
//
// Each class below is what RocksDB asks for, in terms of tranche_store.h. Paths are those of the store.

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <unistd.h>

#include <rocksdb/file_system.h>
#include <rocksdb/io_status.h>
#include <rocksdb/utilities/object_registry.h>

#include "tranche_store.h"

namespace tranche {
namespace {

using rocksdb::Env;
using rocksdb::FileAttributes;
using rocksdb::FileOptions;
using rocksdb::FSDirectory;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSRandomRWFile;
using rocksdb::FSReadRequest;
using rocksdb::FSSequentialFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Bytes that a file which is read from its start to its end is read ahead: logs and manifests are read in pieces of 32 KiB.
constexpr size_t kReadAhead = 256 << 10;
// Bytes that compactions read at once if the program does not say: there is no page cache that reads ahead.
constexpr size_t kCompactionReadAhead = 2 << 20;

// What a code of the store is to RocksDB. The store's own words name the file.
IOStatus Answer(int code) {
  if (code == TRANCHE_OK) return IOStatus::OK();
  const std::string why = tranche_last_error();
  switch (code) {
    case TRANCHE_NOT_FOUND:
      return IOStatus::PathNotFound(why);
    case TRANCHE_NO_SPACE: {
      // Space comes back when files are deleted.
      IOStatus status = IOStatus::NoSpace(why);
      status.SetRetryable(true);
      return status;
    }
    case TRANCHE_BUSY:
      return IOStatus::Busy(why);
    case TRANCHE_INVALID:
      return IOStatus::InvalidArgument(why);
    default:
      return IOStatus::IOError(why);
  }
}

// An open file. It is closed with this.
//
// None of the files below has a GetUniqueId: numbers of files are used again, and RocksDB's caches then tell files apart by themselves.
class Handle {
 public:
  Handle() = default;
  ~Handle() {
    if (file_ != nullptr) tranche_close(file_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  IOStatus Open(tranche_store* store, const std::string& path, int flags) {
    return Answer(tranche_open(store, path.c_str(), flags, &file_));
  }

  IOStatus Close() {
    tranche_file* file = file_;
    file_ = nullptr;
    return file == nullptr ? IOStatus::OK() : Answer(tranche_close(file));
  }

  IOStatus Read(uint64_t offset, size_t n, Slice* result, char* scratch) const {
    size_t read = 0;
    const IOStatus status = Answer(tranche_read(file_, offset, scratch, n, &read));
    *result = Slice(scratch, status.ok() ? read : 0);
    return status;
  }

  tranche_file* get() const { return file_; }

 private:
  tranche_file* file_ = nullptr;
};

class SequentialFile : public FSSequentialFile {
 public:
  explicit SequentialFile(bool direct) : direct_(direct) {}

  Handle handle;

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override {
    size_t done = 0;
    while (done < n) {
      const size_t there = std::min(n - done, ahead_.size() - used_);
      std::memcpy(scratch + done, ahead_.data() + used_, there);
      used_ += there;
      done += there;
      if (done == n) break;
      offset_ += ahead_.size();
      used_ = 0;
      ahead_.resize(std::max(kReadAhead, n - done));
      Slice read;
      const IOStatus status = handle.Read(offset_, ahead_.size(), &read, ahead_.data());
      ahead_.resize(read.size());
      if (!status.ok()) return status;
      if (read.empty()) break;
    }
    *result = Slice(scratch, done);
    return IOStatus::OK();
  }

  IOStatus Skip(uint64_t n) override {
    const uint64_t there = std::min<uint64_t>(n, ahead_.size() - used_);
    used_ += there;
    if (there < n) {
      offset_ += ahead_.size() + (n - there);
      ahead_.clear();
      used_ = 0;
    }
    return IOStatus::OK();
  }

  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                          IODebugContext*) override {
    return handle.Read(offset, n, result, scratch);
  }

  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  bool use_direct_io() const override { return direct_; }

 private:
  const bool direct_;
  // Where in the file the bytes come from that were read ahead, and how many of them were used.
  uint64_t offset_ = 0;
  size_t used_ = 0;
  std::string ahead_;
};

class RandomAccessFile : public FSRandomAccessFile {
 public:
  explicit RandomAccessFile(bool direct) : direct_(direct) {}

  Handle handle;

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return handle.Read(offset, n, result, scratch);
  }

  IOStatus MultiRead(FSReadRequest* requests, size_t count, const IOOptions&, IODebugContext*) override {
    std::vector<tranche_request> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = {requests[i].offset, requests[i].scratch, requests[i].len, 0};
    const IOStatus status = Answer(tranche_read_many(handle.get(), all.data(), count));
    for (size_t i = 0; i < count; ++i) {
      requests[i].status = status;
      requests[i].result = Slice(requests[i].scratch, status.ok() ? all[i].read : 0);
    }
    return IOStatus::OK();
  }

  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  bool use_direct_io() const override { return direct_; }

 private:
  const bool direct_;
};

class WritableFile : public FSWritableFile {
 public:
  WritableFile(const FileOptions& options, uint64_t block)
      : FSWritableFile(options), direct_(options.use_direct_writes), block_(block) {}

  Handle handle;

  using FSWritableFile::Append;
  using FSWritableFile::PositionedAppend;

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_append(handle.get(), data.data(), data.size()));
  }

  // Direct I/O: RocksDB gives whole blocks, and the last one again when there is more of it.
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_write(handle.get(), offset, data.data(), data.size()));
  }

  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return PositionedAppend(data, offset, options, debug);
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_truncate(handle.get(), size));
  }

  IOStatus Close(const IOOptions&, IODebugContext*) override { return handle.Close(); }

  // What is appended is visible at once, also before the store has it.
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

  IOStatus Sync(const IOOptions&, IODebugContext*) override { return Answer(tranche_sync(handle.get())); }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override { return Sync(options, debug); }
  bool IsSyncThreadSafe() const override { return true; }

  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions& options, IODebugContext* debug) override {
    return strict_bytes_per_sync_ ? Sync(options, debug) : Answer(tranche_flush(handle.get()));
  }

  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    uint64_t size = 0;
    return tranche_size(handle.get(), &size) == TRANCHE_OK ? size : 0;
  }

  // Space is taken when data comes.
  void PrepareWrite(size_t, size_t, const IOOptions&, IODebugContext*) override {}
  IOStatus Allocate(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

  void SetWriteLifeTimeHint(Env::WriteLifeTimeHint hint) override {
    if (hint == write_hint_) return;
    FSWritableFile::SetWriteLifeTimeHint(hint);
    // The numbers are those of the store. If the store cannot keep it, the next write says why.
    if (hint != Env::WLTH_NOT_SET) tranche_set_lifetime(handle.get(), static_cast<int>(hint));
  }

  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  bool use_direct_io() const override { return direct_; }
  size_t GetRequiredBufferAlignment() const override { return block_; }

 private:
  const bool direct_;
  const uint64_t block_;
};

static_assert(static_cast<int>(Env::WLTH_NONE) == TRANCHE_LIFE_NONE, "hints have the store's numbers");
static_assert(static_cast<int>(Env::WLTH_EXTREME) == TRANCHE_LIFE_EXTREME, "hints have the store's numbers");

class RandomRWFile : public FSRandomRWFile {
 public:
  Handle handle;

  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_write(handle.get(), offset, data.data(), data.size()));
  }

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return handle.Read(offset, n, result, scratch);
  }

  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return Answer(tranche_sync(handle.get())); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return handle.Close(); }
};

// A store that RocksDB's objects share. The last one closes it.
using Store = std::shared_ptr<tranche_store>;

class Directory : public FSDirectory {
 public:
  explicit Directory(Store store) : store_(std::move(store)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return Answer(tranche_store_sync_names(store_.get()));
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  const Store store_;
};

class Lock : public rocksdb::FileLock {
 public:
  explicit Lock(std::string path) : path(std::move(path)) {}
  const std::string path;
};

class TrancheFileSystem : public rocksdb::FileSystem {
 public:
  TrancheFileSystem(Store store, std::string uri)
      : store_(std::move(store)), uri_(std::move(uri)), block_(tranche_store_block(store_.get())) {}

  static const char* kClassName() { return "TrancheFileSystem"; }
  const char* Name() const override { return kClassName(); }
  std::string GetId() const override { return uri_; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* result, IODebugContext*) override {
    return OpenAs(std::make_unique<SequentialFile>(options.use_direct_reads), path, 0, result);
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* result, IODebugContext*) override {
    return OpenAs(std::make_unique<RandomAccessFile>(options.use_direct_reads), path, 0, result);
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result, IODebugContext*) override {
    const int flags = TRANCHE_CREATE | TRANCHE_TRUNCATE | TRANCHE_APPEND;
    return OpenAs(std::make_unique<WritableFile>(options, block_), path, flags, result);
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* result, IODebugContext*) override {
    const int flags = TRANCHE_CREATE | TRANCHE_APPEND;
    return OpenAs(std::make_unique<WritableFile>(options, block_), path, flags, result);
  }

  // FileSystem::ReuseWritableFile renames and truncates. Blocks of zones are not written twice, so there is nothing to gain from old ones.

  IOStatus NewRandomRWFile(const std::string& path, const FileOptions&, std::unique_ptr<FSRandomRWFile>* result,
                           IODebugContext*) override {
    return OpenAs(std::make_unique<RandomRWFile>(), path, 0, result);
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions&, std::unique_ptr<FSDirectory>* result,
                        IODebugContext*) override {
    tranche_stat stat;
    const IOStatus status = Stat(path, &stat);
    if (!status.ok()) return status;
    if (stat.kind != TRANCHE_DIRECTORY) return IOStatus::IOError(path, "this is no directory");
    result->reset(new Directory(store_));
    return IOStatus::OK();
  }

  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    tranche_stat stat;
    const IOStatus status = Stat(path, &stat);
    return status.IsPathNotFound() ? IOStatus::NotFound() : status;
  }

  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    result->clear();
    return List(path, [result](const char* name, const tranche_stat&) { result->emplace_back(name); });
  }

  IOStatus GetChildrenFileAttributes(const std::string& path, const IOOptions&,
                                     std::vector<FileAttributes>* result, IODebugContext*) override {
    result->clear();
    return List(path, [result](const char* name, const tranche_stat& stat) {
      result->push_back(FileAttributes{name, stat.size});
    });
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_unlink(store_.get(), path.c_str()));
  }

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions&, IODebugContext*) override {
    Handle handle;
    const IOStatus status = handle.Open(store_.get(), path, 0);
    return status.ok() ? Answer(tranche_truncate(handle.get(), size)) : status;
  }

  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_make_directory(store_.get(), path.c_str(), 0));
  }

  // Makes the directories above it, too: a new store has none.
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_make_directory(store_.get(), path.c_str(), 1));
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return Answer(tranche_remove_directory(store_.get(), path.c_str()));
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* size, IODebugContext*) override {
    tranche_stat stat;
    const IOStatus status = Stat(path, &stat);
    *size = status.ok() ? stat.size : 0;
    return status;
  }

  IOStatus GetFileModificationTime(const std::string& path, const IOOptions&, uint64_t* time,
                                   IODebugContext*) override {
    tranche_stat stat;
    const IOStatus status = Stat(path, &stat);
    *time = status.ok() ? stat.mtime_ns / 1000000000 : 0;
    return status;
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return Answer(tranche_rename(store_.get(), from.c_str(), to.c_str()));
  }

  IOStatus LinkFile(const std::string& path, const std::string& new_path, const IOOptions&,
                    IODebugContext*) override {
    return Answer(tranche_link(store_.get(), path.c_str(), new_path.c_str()));
  }

  IOStatus NumFileLinks(const std::string& path, const IOOptions&, uint64_t* count, IODebugContext*) override {
    tranche_stat stat;
    const IOStatus status = Stat(path, &stat);
    *count = status.ok() ? stat.links : 0;
    return status;
  }

  IOStatus AreFilesSame(const std::string& one, const std::string& other, const IOOptions&, bool* result,
                        IODebugContext*) override {
    tranche_stat stats[2];
    IOStatus status = Stat(one, &stats[0]);
    if (status.ok()) status = Stat(other, &stats[1]);
    *result = status.ok() && stats[0].inode == stats[1].inode;
    return status;
  }

  // No other process has the store open, so locks are within this one.
  IOStatus LockFile(const std::string& path, const IOOptions&, rocksdb::FileLock** lock,
                    IODebugContext*) override {
    *lock = nullptr;
    Handle handle;
    IOStatus status = handle.Open(store_.get(), path, TRANCHE_CREATE);
    if (status.ok()) status = Answer(tranche_lock(store_.get(), path.c_str()));
    if (status.IsBusy()) return IOStatus::IOError("While lock file: " + path, "this process has the database open");
    if (status.ok()) *lock = new Lock(path);
    return status;
  }

  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    const std::unique_ptr<Lock> ours(static_cast<Lock*>(lock));
    return Answer(tranche_unlock(store_.get(), ours->path.c_str()));
  }

  IOStatus GetTestDirectory(const IOOptions& options, std::string* path, IODebugContext* debug) override {
    *path = "/rocksdbtest-" + std::to_string(geteuid());
    return CreateDirIfMissing(*path, options, debug);
  }

  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* result,
                           IODebugContext*) override {
    *result = !path.empty() && path[0] == '/' ? path : "/" + path;
    return IOStatus::OK();
  }

  IOStatus GetFreeSpace(const std::string&, const IOOptions&, uint64_t* free, IODebugContext*) override {
    uint64_t total = 0;
    return Answer(tranche_store_space(store_.get(), &total, free));
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* result, IODebugContext*) override {
    tranche_stat stat;
    const IOStatus status = Stat(path, &stat);
    *result = status.ok() && stat.kind == TRANCHE_DIRECTORY;
    return status;
  }

  FileOptions OptimizeForCompactionTableRead(const FileOptions& options,
                                             const rocksdb::ImmutableDBOptions& db) const override {
    FileOptions better = FileSystem::OptimizeForCompactionTableRead(options, db);
    if (better.compaction_readahead_size == 0) better.compaction_readahead_size = kCompactionReadAhead;
    return better;
  }

 private:
  template <typename File, typename Result>
  IOStatus OpenAs(std::unique_ptr<File> file, const std::string& path, int flags,
                  std::unique_ptr<Result>* result) {
    result->reset();
    const IOStatus status = file->handle.Open(store_.get(), path, flags);
    if (status.ok()) *result = std::move(file);
    return status;
  }

  IOStatus Stat(const std::string& path, tranche_stat* stat) {
    return Answer(tranche_stat_path(store_.get(), path.c_str(), stat));
  }

  template <typename Take>
  IOStatus List(const std::string& path, Take take) {
    tranche_listing* listing = nullptr;
    const IOStatus status = Answer(tranche_list(store_.get(), path.c_str(), &listing));
    if (!status.ok()) return status;
    const std::unique_ptr<tranche_listing, void (*)(tranche_listing*)> held(listing, tranche_listing_free);
    tranche_stat stat;
    while (const char* name = tranche_listing_next(listing, &stat)) take(name, stat);
    return IOStatus::OK();
  }

  const Store store_;
  const std::string uri_;
  const uint64_t block_;
};

// A program may end without closing its database, and its file system then lives to the end. What it wrote without a sync is to survive that, as
// it does in a page cache. So the last thing that the program does is to make all stores durable.
class OpenStores {
 public:
  ~OpenStores() {
    for (const std::weak_ptr<tranche_store>& known : stores_) {
      if (const Store store = known.lock()) tranche_store_sync(store.get());
    }
  }

  void Add(const Store& store) {
    const std::lock_guard<std::mutex> guard(mutex_);
    stores_.erase(std::remove_if(stores_.begin(), stores_.end(), [](const auto& known) { return known.expired(); }),
                  stores_.end());
    stores_.push_back(store);
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<tranche_store>> stores_;
};

OpenStores& Stores() {
  static OpenStores stores;
  return stores;
}

// What RocksDB calls for a URI that begins with tranche://.
rocksdb::FileSystem* Make(const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* guard, std::string* error) {
  tranche_store* opened = nullptr;
  if (tranche_store_open(uri.c_str(), &opened) != TRANCHE_OK) {
    *error = tranche_last_error();
    return nullptr;
  }
  const Store store(opened, [](tranche_store* last) { tranche_store_close(last); });
  Stores().Add(store);
  guard->reset(new TrancheFileSystem(store, uri));
  return guard->get();
}

// RocksDB's own library is there before this one, which needs it.
const bool kRegistered = [] {
  const auto pattern = rocksdb::ObjectLibrary::PatternEntry("tranche", false).AddSeparator("://");
  rocksdb::ObjectLibrary::Default()->AddFactory<rocksdb::FileSystem>(pattern, Make);
  return true;
}();

}  // namespace
}  // namespace tranche
