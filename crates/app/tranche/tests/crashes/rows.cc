// Rows in RocksDB: `rows write DIR` takes transactions, a line "KEY BODY KEY BODY" each, and says "done" when each is
// durable; `rows read DIR` prints all rows by key.
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

static int failed(const rocksdb::Status& status) {
    std::cerr << status.ToString() << std::endl;
    return 1;
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    rocksdb::Options options;
    options.create_if_missing = true;
    options.paranoid_checks = true;
    // Small, so that tables are written and compacted.
    options.write_buffer_size = 64 << 10;
    options.target_file_size_base = 64 << 10;
    options.max_bytes_for_level_base = 256 << 10;
    options.compression = rocksdb::kNoCompression;
    rocksdb::DB* db = nullptr;
    rocksdb::Status status = rocksdb::DB::Open(options, argv[2], &db);
    if (!status.ok()) return failed(status);
    char key[24];
    if (std::string(argv[1]) == "read") {
        rocksdb::Iterator* rows = db->NewIterator(rocksdb::ReadOptions());
        for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
            std::cout << std::stoull(rows->key().ToString()) << ' ' << rows->value().ToString() << '\n';
        }
        if (!rows->status().ok()) return failed(rows->status());
        delete rows;
    } else {
        rocksdb::WriteOptions durable;
        durable.sync = true;
        std::string line, body;
        while (std::getline(std::cin, line)) {
            std::istringstream words(line);
            rocksdb::WriteBatch batch;
            for (uint64_t id; words >> id >> body;) {
                std::snprintf(key, sizeof key, "%020" PRIu64, id);
                batch.Put(key, body);
            }
            status = db->Write(durable, &batch);
            if (!status.ok()) return failed(status);
            std::cout << "done" << std::endl;
        }
    }
    delete db;
    return 0;
}
