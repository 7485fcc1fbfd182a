// How fast large files go to a store and come back, by RocksDB's own interface of files.
//
//   stream write|read URI FILES MIB [APPEND_KIB]
//
// FILES threads each write a file of MIB MiB from its start to its end, in appends of APPEND_KIB KiB (1024 unless told), sync and close it; or read it in
// pieces of 1 MiB. Prints MiB/s of all together. A file that is there is deleted first, which does not count.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <rocksdb/convenience.h>
#include <rocksdb/file_system.h>

namespace {

using rocksdb::FileOptions;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

void Good(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::cerr << status.ToString() << std::endl;
  std::_Exit(1);
}

void Write(rocksdb::FileSystem& files, const std::string& path, size_t bytes, size_t piece) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  Good(files.NewWritableFile(path, FileOptions(), &file, nullptr));
  const std::string data(piece, 'x');
  for (size_t done = 0; done < bytes; done += piece) {
    Good(file->Append(rocksdb::Slice(data.data(), std::min(piece, bytes - done)), IOOptions(), nullptr));
  }
  Good(file->Sync(IOOptions(), nullptr));
  Good(file->Close(IOOptions(), nullptr));
}

void Read(rocksdb::FileSystem& files, const std::string& path, size_t bytes, size_t piece) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  Good(files.NewRandomAccessFile(path, FileOptions(), &file, nullptr));
  std::string data(piece, 0);
  for (size_t done = 0; done < bytes; done += piece) {
    rocksdb::Slice read;
    Good(file->Read(done, std::min(piece, bytes - done), IOOptions(), &read, data.data(), nullptr));
    if (read.size() != std::min(piece, bytes - done)) Good(rocksdb::Status::Corruption("the file is too short"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) Good(rocksdb::Status::InvalidArgument("usage: stream write|read URI FILES MIB [APPEND_KIB]"));
  const bool writes = std::string(argv[1]) == "write";
  const int count = std::atoi(argv[3]);
  const size_t bytes = static_cast<size_t>(std::atoll(argv[4])) << 20;
  const size_t piece = static_cast<size_t>(argc > 5 ? std::atoll(argv[5]) : 1024) << 10;
  std::shared_ptr<rocksdb::FileSystem> files;
  Good(rocksdb::FileSystem::CreateFromString(rocksdb::ConfigOptions(), argv[2], &files));
  const auto path = [](int file) { return "/stream" + std::to_string(file); };
  for (int file = 0; writes && file < count; ++file) {
    const IOStatus gone = files->DeleteFile(path(file), IOOptions(), nullptr);
    if (!gone.IsPathNotFound()) Good(gone);
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int file = 0; file < count; ++file) {
    threads.emplace_back([&, file] { (writes ? Write : Read)(*files, path(file), bytes, piece); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << static_cast<double>(count) * static_cast<double>(bytes) / took.count() / (1 << 20) << std::endl;
  return 0;
}
