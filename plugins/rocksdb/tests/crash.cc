// Rows in RocksDB that are to survive crashes.
//
//   crash write URI DIR ACKS SEED     writes until it is killed or an error comes; exit code 3 for an error of the files. With some seeds it opens
//                                     the database again then, and checks it
//   crash check URI DIR ACKS SEED     opens the database, and looks for everything that was acknowledged
//
// Each of the sessions writes one batch after the other, all of a batch or nothing of it. Batch n of a session sets the key "last" to n, changes
// one of 16 keys, makes a new key and deletes an old one. So the number under "last" says all that must be there, and nothing else may be. The
// first session does not sync, the others do: ACKS has a number for each, the last batch that RocksDB acknowledged.
//
// The seed chooses options: direct I/O, recycled logs, a directory for logs, syncs of ranges.

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

namespace {

constexpr int kSessions = 4;
constexpr uint64_t kHot = 16;
constexpr uint64_t kKept = 300;

using Rows = std::map<std::string, std::string>;

[[noreturn]] void Fail(const std::string& what, int code = 1) {
  std::cerr << what << std::endl;
  std::_Exit(code);
}

void Good(const rocksdb::Status& status, const std::string& what) {
  if (!status.ok()) Fail(what + ": " + status.ToString());
}

std::string Key(int session, const char* kind, uint64_t number) {
  char key[64];
  std::snprintf(key, sizeof key, "%d/%s/%012" PRIu64, session, kind, number);
  return key;
}

// Contents that follow from where they belong.
std::string Body(int session, uint64_t number) {
  uint64_t state = number * 2654435761u + static_cast<uint64_t>(session);
  std::string body(20 + state % 700, ' ');
  for (char& byte : body) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>('a' + (state >> 33) % 26);
  }
  return std::to_string(number) + " " + body;
}

// The rows of a session after so many batches.
Rows Expected(int session, uint64_t batches) {
  Rows rows;
  if (batches == 0) return rows;
  rows[Key(session, "last", 0)] = std::to_string(batches);
  for (uint64_t n = batches < kHot ? 1 : batches - kHot + 1; n <= batches; ++n) {
    rows[Key(session, "hot", n % kHot)] = Body(session, n);
  }
  for (uint64_t n = batches < kKept ? 1 : batches - kKept + 1; n <= batches; ++n) {
    rows[Key(session, "new", n)] = Body(session, n);
  }
  return rows;
}

struct Opened {
  std::shared_ptr<rocksdb::FileSystem> files;
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> families;

  // The family that a session writes to.
  rocksdb::ColumnFamilyHandle* Of(int session) { return families[session % families.size()]; }

  ~Opened() {
    for (rocksdb::ColumnFamilyHandle* family : families) db->DestroyColumnFamilyHandle(family);
  }
};

void Open(Opened& opened, const std::string& uri, const std::string& dir, uint64_t seed) {
  Good(rocksdb::FileSystem::CreateFromString(rocksdb::ConfigOptions(), uri, &opened.files), uri);
  opened.env = rocksdb::NewCompositeEnv(opened.files);
  rocksdb::DBOptions options;
  options.env = opened.env.get();
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.paranoid_checks = true;
  options.max_background_jobs = 3;
  options.use_direct_io_for_flush_and_compaction = seed & 1;
  options.use_direct_reads = seed & 2;
  options.recycle_log_file_num = seed & 4 ? 2 : 0;
  if (seed & 8) options.wal_dir = dir + "/logs";
  if (seed & 16) options.bytes_per_sync = 32 << 10;
  rocksdb::ColumnFamilyOptions family;
  // Small, so that tables are written and compacted all the time.
  family.write_buffer_size = 128 << 10;
  family.target_file_size_base = 128 << 10;
  family.max_bytes_for_level_base = 512 << 10;
  family.level0_file_num_compaction_trigger = 2;
  family.compression = rocksdb::kNoCompression;
  std::vector<rocksdb::ColumnFamilyDescriptor> families{{rocksdb::kDefaultColumnFamilyName, family},
                                                        {"second", family}};
  rocksdb::DB* db = nullptr;
  Good(rocksdb::DB::Open(options, dir, families, &opened.families, &db), "opening " + dir);
  opened.db.reset(db);
}

Rows Read(Opened& opened, int session) {
  rocksdb::ReadOptions all;
  all.verify_checksums = true;
  const std::string prefix = std::to_string(session) + "/";
  Rows rows;
  std::unique_ptr<rocksdb::Iterator> at(opened.db->NewIterator(all, opened.Of(session)));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    rows[at->key().ToString()] = at->value().ToString();
  }
  Good(at->status(), "reading rows");
  return rows;
}

uint64_t Last(const Rows& rows, int session) {
  const auto last = rows.find(Key(session, "last", 0));
  return last == rows.end() ? 0 : std::stoull(last->second);
}

void Write(Opened& opened, int session, int acks, std::atomic<bool>& stop) {
  rocksdb::WriteOptions options;
  options.sync = session > 0;
  for (uint64_t n = Last(Read(opened, session), session) + 1; !stop; ++n) {
    rocksdb::WriteBatch batch;
    batch.Put(opened.Of(session), Key(session, "last", 0), std::to_string(n));
    batch.Put(opened.Of(session), Key(session, "hot", n % kHot), Body(session, n));
    batch.Put(opened.Of(session), Key(session, "new", n), Body(session, n));
    if (n > kKept) batch.Delete(opened.Of(session), Key(session, "new", n - kKept));
    const rocksdb::Status status = opened.db->Write(options, &batch);
    if (!status.ok()) {
      std::cerr << "session " << session << ": " << status.ToString() << std::endl;
      stop = true;
      return;
    }
    if (pwrite(acks, &n, sizeof n, session * static_cast<off_t>(sizeof n)) != sizeof n) Fail("writing ACKS");
    // What does not sync must not leave the others behind.
    if (session == 0) usleep(200);
  }
}

void Check(Opened& opened, int acks) {
  for (int session = 0; session < kSessions; ++session) {
    uint64_t acknowledged = 0;
    if (pread(acks, &acknowledged, sizeof acknowledged, session * static_cast<off_t>(sizeof acknowledged)) < 0) {
      Fail("reading ACKS");
    }
    const Rows rows = Read(opened, session);
    const uint64_t last = Last(rows, session);
    const std::string who = "session " + std::to_string(session);
    if (session > 0 && last < acknowledged) {
      Fail(who + ": batch " + std::to_string(acknowledged) + " was acknowledged, " + std::to_string(last) + " is the last");
    }
    // One may have been under way.
    if (last > acknowledged + 1) Fail(who + ": batch " + std::to_string(last) + " was never written");
    const Rows expected = Expected(session, last);
    if (rows != expected) {
      Fail(who + ": " + std::to_string(rows.size()) + " rows are not the " + std::to_string(expected.size()) +
           " after batch " + std::to_string(last));
    }
    // From here on, what is there counts: the session that does not sync may have lost some.
    if (pwrite(acks, &last, sizeof last, session * static_cast<off_t>(sizeof last)) != sizeof last) Fail("writing ACKS");
    std::cout << (session == 0 ? "" : " ") << last;
  }
  std::cout << std::endl;
  Good(opened.db->VerifyChecksum(), "verifying checksums");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) Fail("usage: crash write|check URI DIR ACKS SEED", 2);
  const std::string verb = argv[1];
  const int acks = open(argv[4], O_RDWR | O_CREAT, 0600);
  if (acks < 0) Fail("opening ACKS");
  const std::string uri = argv[2], dir = argv[3];
  const uint64_t seed = std::strtoull(argv[5], nullptr, 10);
  auto opened = std::make_unique<Opened>();
  Open(*opened, uri, dir, seed);
  if (verb == "check") {
    Check(*opened, acks);
    return 0;
  }
  // Whoever started this may crash it now.
  std::cout << "ready" << std::endl;
  std::atomic<bool> stop{false};
  std::vector<std::thread> sessions;
  for (int session = 0; session < kSessions; ++session) {
    sessions.emplace_back([&opened, session, acks, &stop] { Write(*opened, session, acks, stop); });
  }
  for (std::thread& session : sessions) session.join();
  // The files failed. What is in memory is of no use, and nobody else gets it by accident.
  if (seed & 32) {
    std::shared_ptr<rocksdb::FileSystem> files;
    const rocksdb::Status refused = rocksdb::FileSystem::CreateFromString(rocksdb::ConfigOptions(), uri, &files);
    if (refused.ToString().find("must let go of it") == std::string::npos) Fail("the store is shared: " + refused.ToString());
    opened.reset();
    opened = std::make_unique<Opened>();
    Open(*opened, uri, dir, seed);
    Check(*opened, acks);
  }
  std::_Exit(3);
}
