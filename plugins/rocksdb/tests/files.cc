// A store is as good a file system to RocksDB as a directory of this machine: random operations are done with both, and must come to the same.
//
//   files URI DIR SEED STEPS

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

namespace {

using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

uint64_t seed;
uint64_t step;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "seed " << seed << ", step " << step << ": " << what << std::endl;
  std::_Exit(1);
}

void Good(const IOStatus& status, const std::string& what) {
  if (!status.ok()) Fail(what + ": " + status.ToString());
}

// Two answers agree if both are good, or both say that there is no such file, or both are another error.
void Same(const IOStatus& one, const IOStatus& other, const std::string& what) {
  const auto missing = [](const IOStatus& status) { return status.IsNotFound() || status.IsPathNotFound(); };
  if (one.ok() != other.ok() || missing(one) != missing(other)) {
    Fail(what + ": " + one.ToString() + " and " + other.ToString());
  }
}

struct Pair {
  std::shared_ptr<rocksdb::FileSystem> files[2];
  std::string top[2];
  // Files that are written to.
  struct Writer {
    std::unique_ptr<FSWritableFile> file[2];
  };
  std::map<std::string, Writer> writers;

  std::string At(int side, const std::string& name) const { return top[side] + "/" + name; }
};

// Whether somebody has the file open for writing, by this name or another one. Two who write to one file have a place each, and what comes of it
// is their own matter.
bool IsWritten(Pair& pair, const std::string& name) {
  for (const auto& [known, writer] : pair.writers) {
    bool same = false;
    const IOStatus found =
        pair.files[0]->AreFilesSame(pair.At(0, known), pair.At(0, name), IOOptions(), &same, nullptr);
    if (known == name || (found.ok() && same)) return true;
  }
  return false;
}

std::string Bytes(std::mt19937_64& random, size_t length) {
  std::string bytes(length, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string Whole(Pair& pair, int side, const std::string& name) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  Good(pair.files[side]->NewSequentialFile(pair.At(side, name), FileOptions(), &file, nullptr), name);
  std::string all, scratch(70000, 0);
  for (;;) {
    Slice read;
    Good(file->Read(scratch.size(), IOOptions(), &read, scratch.data(), nullptr), name);
    if (read.empty()) return all;
    all.append(read.data(), read.size());
  }
}

void CompareNames(Pair& pair, const std::string& directory) {
  std::map<std::string, uint64_t> names[2];
  for (int side = 0; side < 2; ++side) {
    std::vector<rocksdb::FileAttributes> found;
    Good(pair.files[side]->GetChildrenFileAttributes(pair.At(side, directory), IOOptions(), &found, nullptr), directory);
    for (const auto& file : found) {
      bool is_directory = false;
      const std::string path = pair.At(side, directory) + "/" + file.name;
      Good(pair.files[side]->IsDirectory(path, IOOptions(), &is_directory, nullptr), path);
      names[side][file.name] = is_directory ? UINT64_MAX : file.size_bytes;
    }
  }
  if (names[0] != names[1]) {
    for (int side = 0; side < 2; ++side) {
      for (const auto& [name, size] : names[side]) std::cerr << side << " " << name << " " << size << "\n";
    }
    Fail("other names in " + directory);
  }
}

void CompareContents(Pair& pair, const std::string& name) {
  uint64_t sizes[2], links[2];
  IOStatus found[2];
  for (int side = 0; side < 2; ++side) {
    found[side] = pair.files[side]->GetFileSize(pair.At(side, name), IOOptions(), &sizes[side], nullptr);
  }
  Same(found[0], found[1], "the size of " + name);
  if (!found[0].ok()) return;
  if (sizes[0] != sizes[1]) Fail("other sizes of " + name);
  for (int side = 0; side < 2; ++side) {
    Good(pair.files[side]->NumFileLinks(pair.At(side, name), IOOptions(), &links[side], nullptr), name);
  }
  if (links[0] != links[1]) Fail("other links of " + name);
  if (Whole(pair, 0, name) != Whole(pair, 1, name)) Fail("other contents of " + name);
}

void ReadSomewhere(Pair& pair, std::mt19937_64& random, const std::string& name) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> files[2];
  IOStatus opened[2];
  for (int side = 0; side < 2; ++side) {
    opened[side] = pair.files[side]->NewRandomAccessFile(pair.At(side, name), FileOptions(), &files[side], nullptr);
  }
  Same(opened[0], opened[1], "opening " + name);
  if (!opened[0].ok()) return;
  constexpr size_t kRequests = 3;
  const uint64_t start = random() % 300000;
  std::string read[2];
  for (int side = 0; side < 2; ++side) {
    std::string scratch[kRequests];
    rocksdb::FSReadRequest requests[kRequests];
    for (size_t i = 0; i < kRequests; ++i) {
      scratch[i].resize(5000 * (i + 1));
      requests[i].offset = start + i * 20000;
      requests[i].len = scratch[i].size();
      requests[i].scratch = scratch[i].data();
    }
    Good(files[side]->MultiRead(requests, kRequests, IOOptions(), nullptr), name);
    for (const auto& request : requests) {
      Good(request.status, name);
      read[side].append(request.result.data(), request.result.size());
      read[side].append("|");
    }
  }
  if (read[0] != read[1]) Fail("other bytes of " + name);
  // The same with a file that is read from its start, some of which is skipped.
  for (int side = 0; side < 2; ++side) {
    std::unique_ptr<rocksdb::FSSequentialFile> file;
    Good(pair.files[side]->NewSequentialFile(pair.At(side, name), FileOptions(), &file, nullptr), name);
    std::string scratch(3000, 0);
    Slice result;
    Good(file->Read(100, IOOptions(), &result, scratch.data(), nullptr), name);
    Good(file->Skip(start / 3), name);
    Good(file->Read(3000, IOOptions(), &result, scratch.data(), nullptr), name);
    read[side] = result.ToString();
  }
  if (read[0] != read[1]) Fail("other bytes behind skipped ones of " + name);
}

// Writes to an open file, or to one that is opened for it.
void WriteSome(Pair& pair, std::mt19937_64& random, const std::string& name) {
  if (pair.writers.count(name) == 0 && IsWritten(pair, name)) return;
  Pair::Writer& writer = pair.writers[name];
  if (writer.file[0] == nullptr) {
    const int way = random() % 2;
    IOStatus opened[2];
    for (int side = 0; side < 2; ++side) {
      rocksdb::FileSystem& files = *pair.files[side];
      const std::string path = pair.At(side, name);
      opened[side] = way == 0 ? files.NewWritableFile(path, FileOptions(), &writer.file[side], nullptr)
                              : files.ReopenWritableFile(path, FileOptions(), &writer.file[side], nullptr);
    }
    Same(opened[0], opened[1], "opening " + name + " for writing");
    if (!opened[0].ok()) {
      pair.writers.erase(name);
      return;
    }
    for (int side = 0; side < 2; ++side) {
      writer.file[side]->SetWriteLifeTimeHint(static_cast<rocksdb::Env::WriteLifeTimeHint>(step % 5 + 1));
    }
  }
  const std::string bytes = Bytes(random, random() % 8 == 0 ? random() % 1500000 : random() % 9000);
  const uint64_t act = random() % 8;
  for (int side = 0; side < 2; ++side) {
    FSWritableFile& file = *writer.file[side];
    Good(file.Append(bytes, IOOptions(), nullptr), name);
    Good(file.Flush(IOOptions(), nullptr), name);
    if (act == 0) Good(file.Sync(IOOptions(), nullptr), name);
    if (act == 1) Good(file.Fsync(IOOptions(), nullptr), name);
    if (act == 2) Good(file.RangeSync(0, bytes.size(), IOOptions(), nullptr), name);
    if (act <= 4) Good(file.Close(IOOptions(), nullptr), name);
  }
  if (act <= 4) pair.writers.erase(name);
}

void WriteAnywhere(Pair& pair, std::mt19937_64& random, const std::string& name) {
  if (IsWritten(pair, name)) return;
  const std::string bytes = Bytes(random, 1 + random() % 20000);
  const uint64_t offset = random() % 400000;
  IOStatus opened[2];
  for (int side = 0; side < 2; ++side) {
    std::unique_ptr<rocksdb::FSRandomRWFile> file;
    opened[side] = pair.files[side]->NewRandomRWFile(pair.At(side, name), FileOptions(), &file, nullptr);
    if (!opened[side].ok()) continue;
    Good(file->Write(offset, bytes, IOOptions(), nullptr), name);
    std::string scratch(bytes.size(), 0);
    Slice read;
    Good(file->Read(offset, scratch.size(), IOOptions(), &read, scratch.data(), nullptr), name);
    if (read != Slice(bytes)) Fail("not what was written to " + name);
    Good(file->Sync(IOOptions(), nullptr), name);
    Good(file->Close(IOOptions(), nullptr), name);
  }
  Same(opened[0], opened[1], "opening " + name + " for reading and writing");
}

// Whole blocks at places, as direct I/O writes them: the last one again when there is more of it, and then the file gets its size.
void WriteDirectly(Pair& pair, std::mt19937_64& random, const std::string& name) {
  if (IsWritten(pair, name)) return;
  FileOptions direct;
  direct.use_direct_writes = true;
  const std::string bytes = Bytes(random, 1 + random() % 60000);
  std::unique_ptr<FSWritableFile> ours, theirs;
  Good(pair.files[0]->NewWritableFile(pair.At(0, name), FileOptions(), &theirs, nullptr), name);
  Good(theirs->Append(bytes, IOOptions(), nullptr), name);
  Good(theirs->Close(IOOptions(), nullptr), name);
  Good(pair.files[1]->NewWritableFile(pair.At(1, name), direct, &ours, nullptr), name);
  const size_t block = ours->GetRequiredBufferAlignment();
  if (!ours->use_direct_io() || block < 512) Fail("no direct I/O");
  for (size_t from = 0, done = 0; done < bytes.size(); from = done / block * block) {
    done = std::min(bytes.size(), done + 1 + random() % 20000);
    std::string piece = bytes.substr(from, done - from);
    piece.resize((piece.size() + block - 1) / block * block);
    Good(ours->PositionedAppend(piece, from, IOOptions(), nullptr), name);
  }
  Good(ours->Truncate(bytes.size(), IOOptions(), nullptr), name);
  Good(ours->Sync(IOOptions(), nullptr), name);
  Good(ours->Close(IOOptions(), nullptr), name);
}

// RocksDB's own file system cannot do this by name.
IOStatus TruncateHere(const std::string& path, uint64_t size) {
  if (truncate(path.c_str(), static_cast<off_t>(size)) == 0) return IOStatus::OK();
  return errno == ENOENT ? IOStatus::PathNotFound(path) : IOStatus::IOError(path);
}

void Locks(Pair& pair) {
  for (int side = 0; side < 2; ++side) {
    rocksdb::FileSystem& files = *pair.files[side];
    rocksdb::FileLock *lock = nullptr, *second = nullptr;
    Good(files.LockFile(pair.At(side, "LOCK"), IOOptions(), &lock, nullptr), "locking");
    const IOStatus refused = files.LockFile(pair.At(side, "LOCK"), IOOptions(), &second, nullptr);
    if (!refused.IsIOError() || second != nullptr) Fail("locked twice: " + refused.ToString());
    Good(files.UnlockFile(lock, IOOptions(), nullptr), "unlocking");
  }
}

void Step(Pair& pair, std::mt19937_64& random) {
  const std::vector<std::string> names{"a", "b", "c", "d/a", "d/b", "e/a"};
  const std::string name = names[random() % names.size()], other = names[random() % names.size()];
  const std::vector<std::string> directories{"d", "e", "f"};
  const std::string directory = directories[random() % directories.size()];
  IOStatus done[2];
  bool same[2] = {false, false};
  const uint64_t act = random() % 20;
  if (act < 6) return WriteSome(pair, random, name);
  if (act == 6) return WriteAnywhere(pair, random, name);
  if (act == 7 && name.size() == 1) return WriteDirectly(pair, random, name);
  if (act < 10) return CompareContents(pair, name);
  if (act == 10) return ReadSomewhere(pair, random, name);
  if (act == 11) return CompareNames(pair, "");
  const uint64_t size = random() % 100000;
  for (int side = 0; side < 2; ++side) {
    rocksdb::FileSystem& files = *pair.files[side];
    const std::string path = pair.At(side, name), second = pair.At(side, other);
    switch (act) {
      case 12:
        done[side] = files.RenameFile(path, second, IOOptions(), nullptr);
        break;
      case 13:
        done[side] = files.LinkFile(path, second, IOOptions(), nullptr);
        break;
      case 14:
        done[side] = files.DeleteFile(path, IOOptions(), nullptr);
        break;
      case 15:
        if (IsWritten(pair, name)) return;
        done[side] = side == 0 ? TruncateHere(path, size) : files.Truncate(path, size, IOOptions(), nullptr);
        break;
      case 16:
        done[side] = files.CreateDirIfMissing(pair.At(side, directory), IOOptions(), nullptr);
        break;
      case 17:
        done[side] = files.DeleteDir(pair.At(side, directory), IOOptions(), nullptr);
        break;
      case 18:
        done[side] = files.AreFilesSame(path, second, IOOptions(), &same[side], nullptr);
        break;
      default: {
        std::unique_ptr<rocksdb::FSDirectory> opened;
        done[side] = files.NewDirectory(pair.At(side, directory), IOOptions(), &opened, nullptr);
        if (done[side].ok()) Good(opened->FsyncWithDirOptions(IOOptions(), nullptr, rocksdb::DirFsyncOptions()), directory);
      }
    }
  }
  Same(done[0], done[1], "act " + std::to_string(act) + " with " + name + ", " + other + ", " + directory);
  if (same[0] != same[1]) Fail("not the same files: " + name + ", " + other);
  // A writer keeps its file, whatever its name is. It is not found by that any more.
  if (done[0].ok() && (act == 12 || act == 14)) {
    pair.writers.erase(name);
    if (act == 12) pair.writers.erase(other);
  }
  if (done[0].ok() && act == 13) pair.writers.erase(name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) Fail("usage: files URI DIR SEED STEPS");
  seed = std::strtoull(argv[3], nullptr, 10);
  Pair pair;
  pair.files[0] = rocksdb::FileSystem::Default();
  pair.top[0] = argv[2];
  const rocksdb::Status opened =
      rocksdb::FileSystem::CreateFromString(rocksdb::ConfigOptions(), argv[1], &pair.files[1]);
  if (!opened.ok()) Fail(opened.ToString());
  pair.top[1] = "/files/" + std::to_string(seed) + "-" + std::to_string(getpid());
  Good(pair.files[1]->CreateDirIfMissing(pair.top[1], IOOptions(), nullptr), "making a directory");
  Locks(pair);
  std::mt19937_64 random(seed);
  const uint64_t steps = std::strtoull(argv[4], nullptr, 10);
  for (step = 1; step <= steps; ++step) Step(pair, random);
  pair.writers.clear();
  for (const char* name : {"a", "b", "c", "d/a", "d/b", "e/a"}) CompareContents(pair, name);
  CompareNames(pair, "");
  std::cout << steps << " steps agree" << std::endl;
  return 0;
}
