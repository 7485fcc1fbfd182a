/* A file store on the zones of an NVMe drive, for C and C++.
 *
 * Link with libtranche_store.a, -lssl -lcrypto -lpthread -ldl -lm.
 *
 * Rules for all functions:
 *  - They may be called from several threads at once, also with the same handle. Only the ones that free a handle must be the last with it.
 *  - Functions that return an int return TRANCHE_OK or another tranche_code. tranche_last_error() says more in words.
 *  - Paths are bytes that end with a zero. They begin at the top of the store.
 *  - Handles come from this library, and are valid until they are freed. No pointer is NULL unless it says so.
 *  - Nothing that went wrong leaves a handle behind: *result is NULL then.
 */
#ifndef TRANCHE_STORE_H
#define TRANCHE_STORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tranche_code {
    TRANCHE_OK = 0,
    TRANCHE_NOT_FOUND = 1,
    TRANCHE_EXISTS = 2,
    TRANCHE_NOT_DIRECTORY = 3,
    TRANCHE_IS_DIRECTORY = 4,
    TRANCHE_NOT_EMPTY = 5,
    TRANCHE_INVALID = 6,
    TRANCHE_NO_SPACE = 7,
    /* Another program has the store open, or another user of this process has the lock. */
    TRANCHE_BUSY = 8,
    /* The drive cannot be reached, it failed, or the store takes no changes any more. */
    TRANCHE_FAILED = 9,
    /* A mistake in this library. */
    TRANCHE_BUG = 10
};

enum tranche_kind { TRANCHE_FILE = 0, TRANCHE_DIRECTORY = 1, TRANCHE_SYMLINK = 2 };

/* How long data is expected to live: the numbers of Linux's F_SET_RW_HINT. */
enum tranche_lifetime {
    TRANCHE_LIFE_UNKNOWN = 0,
    TRANCHE_LIFE_NONE = 1,
    TRANCHE_LIFE_SHORT = 2,
    TRANCHE_LIFE_MEDIUM = 3,
    TRANCHE_LIFE_LONG = 4,
    TRANCHE_LIFE_EXTREME = 5
};

/* Flags of tranche_open. */
enum tranche_open_flags {
    /* The file is made if it is not there. */
    TRANCHE_CREATE = 1,
    /* It becomes empty. */
    TRANCHE_TRUNCATE = 2,
    /* tranche_append may be used; it goes on from the end of the file. */
    TRANCHE_APPEND = 4
};

struct tranche_stat {
    /* Number of the file in the store. */
    uint64_t inode;
    /* Bytes of a file; of a directory, the number of its names. */
    uint64_t size;
    /* Last change of the contents, in nanoseconds since 1970. */
    uint64_t mtime_ns;
    /* Names that it has. */
    uint32_t links;
    /* One of tranche_kind. */
    uint32_t kind;
};

/* A read: where it begins in the file, where the bytes go, and how many there are at most; then how many there were. */
struct tranche_request {
    uint64_t offset;
    void *buffer;
    size_t length;
    size_t read;
};

typedef struct tranche_store tranche_store;
typedef struct tranche_file tranche_file;
typedef struct tranche_listing tranche_listing;

/* What went wrong in this thread last, in words. Valid until this thread calls another function. */
const char *tranche_last_error(void);

/* Opens the store at a place: tranche://HOST[:PORT][/NSID][?OPTION=VALUE&...] or tranche:///PATH/OF/SOCKET[?...]. If this process has it open
 * already, both share it. Another program that has it open is TRANCHE_BUSY. */
int tranche_store_open(const char *place, tranche_store **result);
/* Frees the handle. The last user of a store makes everything durable, and reports whether that succeeded. */
int tranche_store_close(tranche_store *store);
/* Makes everything durable. */
int tranche_store_sync(tranche_store *store);
/* Makes all changes of names durable: what fsync of a directory is. */
int tranche_store_sync_names(tranche_store *store);
/* Bytes that files may have, and those of them that no file has. */
int tranche_store_space(tranche_store *store, uint64_t *total, uint64_t *free);
/* Bytes of a block. Writes of whole blocks at multiples of it cost least. */
uint64_t tranche_store_block(tranche_store *store);

int tranche_stat_path(tranche_store *store, const char *path, struct tranche_stat *result);
/* With parents not 0, directories above it are made, too, and it may be there already. */
int tranche_make_directory(tranche_store *store, const char *path, int parents);
int tranche_remove_directory(tranche_store *store, const char *path);
int tranche_unlink(tranche_store *store, const char *path);
/* The new name is replaced if it is there. */
int tranche_rename(tranche_store *store, const char *from, const char *to);
int tranche_link(tranche_store *store, const char *path, const char *new_path);
/* Locks a path for all users of the store in this process. */
int tranche_lock(tranche_store *store, const char *path);
int tranche_unlock(tranche_store *store, const char *path);

/* The names of a directory, as they are now. */
int tranche_list(tranche_store *store, const char *path, tranche_listing **result);
/* The next name, or NULL behind the last. It is valid until the listing is freed. `result` may be NULL. */
const char *tranche_listing_next(tranche_listing *listing, struct tranche_stat *result);
void tranche_listing_free(tranche_listing *listing);

int tranche_open(tranche_store *store, const char *path, int flags, tranche_file **result);
/* Frees the handle, and reports whether what was appended could be written. It promises nothing about what is durable. */
int tranche_close(tranche_file *file);
/* Reads up to `length` bytes; *read tells how many there are: fewer only at the end of the file. */
int tranche_read(tranche_file *file, uint64_t offset, void *buffer, size_t length, size_t *read);
/* Does several reads at once: the drive has all of them at the same time. Buffers that overlap are refused with
 * TRANCHE_INVALID. */
int tranche_read_many(tranche_file *file, struct tranche_request *requests, size_t count);
int tranche_write(tranche_file *file, uint64_t offset, const void *data, size_t length);
/* Appends. Bytes may be collected in memory; other users of the file see them all the same. */
int tranche_append(tranche_file *file, const void *data, size_t length);
/* Starts to write what was collected. */
int tranche_flush(tranche_file *file);
/* Makes the file durable, and all changes of names before. */
int tranche_sync(tranche_file *file);
int tranche_truncate(tranche_file *file, uint64_t size);
/* Bytes of the file; of one that is open for appending, the place where the next append goes. */
int tranche_size(tranche_file *file, uint64_t *result);
/* New data of the file goes to zones with data that is expected to live equally long: one of tranche_lifetime. */
int tranche_set_lifetime(tranche_file *file, int lifetime);
/* The file holds keys from `first` to `last`, both in it and in the order of their bytes, and is of a level or generation from 0 to 255. Its data goes to
 * zones with files of the same level whose keys are near, if the placement of the store is `overlap`. It counts for data that comes later, so it is best said
 * before the first. The first 128 bytes of a key are kept. */
int tranche_set_keys(tranche_file *file, int level, const void *first, size_t first_length, const void *last,
                     size_t last_length);
/* Number of the file in the store. */
uint64_t tranche_inode(tranche_file *file);

#ifdef __cplusplus
}
#endif

#endif
