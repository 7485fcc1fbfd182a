/* Says which keys files hold, as a program does that sorts, and says what cannot be. Argument: the place of an empty store.
 * `store.rs`, a test of the program `tranche`, runs it and looks at the zones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tranche_store.h"

#define EXPECT(code, call) expect(code, call, #call, __LINE__)

static void expect(int code, int found, const char *call, int line) {
    if (found == code) return;
    fprintf(stderr, "line %d: %s gives %d in place of %d (%s)\n", line, call, found, code, tranche_last_error());
    exit(1);
}

static int set_keys(tranche_file *file, int level, const char *first, const char *last) {
    return tranche_set_keys(file, level, first, strlen(first), last, strlen(last));
}

/* Makes a file of so many KiB. Its keys are told before it has data; `first` may be NULL: then they are not. */
static void table(tranche_store *store, const char *path, int level, const char *first, const char *last, size_t kib) {
    tranche_file *file;
    char *data = calloc(kib, 1024);
    if (data == NULL) exit(1);
    memset(data, path[1], kib * 1024);
    EXPECT(TRANCHE_OK, tranche_open(store, path, TRANCHE_CREATE | TRANCHE_APPEND, &file));
    if (first != NULL) EXPECT(TRANCHE_OK, set_keys(file, level, first, last));
    EXPECT(TRANCHE_OK, tranche_append(file, data, kib * 1024));
    EXPECT(TRANCHE_OK, tranche_sync(file));
    EXPECT(TRANCHE_OK, tranche_close(file));
    free(data);
}

/* Keys at the limits of what can be, and beyond them. */
static void limits(tranche_store *store) {
    tranche_file *file;
    char low[5000], high[5000];
    EXPECT(TRANCHE_OK, tranche_open(store, "/limits", TRANCHE_CREATE, &file));

    EXPECT(TRANCHE_INVALID, set_keys(NULL, 1, "a", "b"));
    EXPECT(TRANCHE_INVALID, tranche_set_keys(file, 1, NULL, 1, "b", 1));
    EXPECT(TRANCHE_INVALID, tranche_set_keys(file, 1, "a", 1, NULL, 1));
    EXPECT(TRANCHE_INVALID, set_keys(file, -1, "a", "b"));
    EXPECT(TRANCHE_INVALID, set_keys(file, 256, "a", "b"));
    EXPECT(TRANCHE_INVALID, set_keys(file, 1, "b", "a"));
    if (strcmp(tranche_last_error(), "the last key comes before the first") != 0) {
        fprintf(stderr, "%s\n", tranche_last_error());
        exit(1);
    }
    /* A key comes before all that begin with it, and the empty one before all. */
    EXPECT(TRANCHE_INVALID, set_keys(file, 1, "ab", "a"));
    EXPECT(TRANCHE_INVALID, set_keys(file, 1, "a", ""));

    EXPECT(TRANCHE_OK, tranche_set_keys(file, 0, NULL, 0, "\xff\0", 2));
    EXPECT(TRANCHE_OK, tranche_set_keys(file, 0, NULL, 0, NULL, 0));
    EXPECT(TRANCHE_OK, set_keys(file, 255, "a", "a"));

    /* Of long keys the begin is kept. Which one comes first is told by all of their bytes. */
    memset(low, 'k', sizeof low);
    memset(high, 'k', sizeof high);
    high[sizeof high - 1] = 'l';
    EXPECT(TRANCHE_OK, tranche_set_keys(file, 1, low, sizeof low, high, sizeof high));
    EXPECT(TRANCHE_INVALID, tranche_set_keys(file, 1, high, sizeof high, low, sizeof low));

    /* A file without a name is there until it is closed. */
    EXPECT(TRANCHE_OK, tranche_unlink(store, "/limits"));
    EXPECT(TRANCHE_OK, set_keys(file, 1, "a", "b"));
    EXPECT(TRANCHE_OK, tranche_close(file));
}

int main(int argc, char **argv) {
    tranche_store *store;
    if (argc != 2) return 2;
    EXPECT(TRANCHE_OK, tranche_store_open(argv[1], &store));
    limits(store);
    /* Two ranges of level 1, each of two files, another level, and a file whose keys nobody knows. */
    table(store, "/low", 1, "b", "d", 64);
    table(store, "/high", 1, "v", "x", 256);
    table(store, "/low-too", 1, "c", "e", 128);
    table(store, "/high-too", 1, "w", "y", 512);
    table(store, "/level", 2, "b", "d", 1024);
    table(store, "/plain", 0, NULL, NULL, 96);
    EXPECT(TRANCHE_OK, tranche_store_close(store));
    return 0;
}
