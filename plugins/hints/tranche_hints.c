/* Write hints for files of a mounted store. FUSE does not pass on fcntl(F_SET_RW_HINT). With
 *
 *     LD_PRELOAD=libtranche_hints.so PROGRAM
 *
 * a hint also becomes the extended attribute user.tranche.lifetime of the file, if that is on a store. Everything else goes to the C library as it
 * is: this has fcntl, and nothing more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/* Linux, linux/fcntl.h. Not all headers of the C library have the second one. */
#ifndef F_SET_FILE_RW_HINT
#define F_SET_FILE_RW_HINT 1038
#endif

typedef int fcntl_function(int fd, int command, ...);

/* The hints 0 to 5, as the store names them. */
static const char *const NAMES[] = {"unknown", "none", "short", "medium", "long", "extreme"};

/* Whether a file is on a mounted store. Other file systems could take the attribute, too, and it would mean nothing there. */
static int is_on_store(int fd) {
    struct stat file;
    if (fstat(fd, &file) != 0) return 0;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (mounts == NULL) return 0;
    int found = 0;
    char *line = NULL;
    size_t room = 0;
    while (!found && getline(&line, &room, mounts) > 0) {
        unsigned int major_number, minor_number;
        const int is_device = sscanf(line, "%*d %*d %u:%u", &major_number, &minor_number) == 2;
        found = is_device && makedev(major_number, minor_number) == file.st_dev && strstr(line, " - fuse.tranche ") != NULL;
    }
    free(line);
    fclose(mounts);
    return found;
}

/* The name of a hint, or NULL. The kernel reads 64 bits; RocksDB gives the address of an int, with anything behind it. */
static const char *name_of(const void *argument) {
    const uint64_t count = sizeof NAMES / sizeof *NAMES;
    uint64_t hint;
    uint32_t begin;
    memcpy(&hint, argument, sizeof hint);
    memcpy(&begin, argument, sizeof begin);
    if (hint < count) return NAMES[hint];
    return begin < count ? NAMES[begin] : NULL;
}

/* Tells the store. Returns whether it knows now. */
static int forward(int fd, const void *argument) {
    const char *name = argument == NULL ? NULL : name_of(argument);
    return name != NULL && is_on_store(fd) && fsetxattr(fd, "user.tranche.lifetime", name, strlen(name), 0) == 0;
}

static int call(fcntl_function *real, int fd, int command, void *argument) {
    if (real == NULL) {
        errno = ENOSYS;
        return -1;
    }
    const int result = real(fd, command, argument);
    if (command != F_SET_RW_HINT && command != F_SET_FILE_RW_HINT) return result;
    const int why = errno;
    /* Where the kernel knows no hint of its own, that of the store counts. */
    const int is_known = forward(fd, argument);
    errno = why;
    return is_known ? 0 : result;
}

/* An argument is a number or a pointer, and the C library itself reads it as a pointer. */
#define FORWARDING(NAME)                                                            \
    int NAME(int fd, int command, ...) {                                            \
        static fcntl_function *real;                                                \
        fcntl_function *known = __atomic_load_n(&real, __ATOMIC_RELAXED);           \
        if (known == NULL) {                                                        \
            /* POSIX lets a pointer of dlsym be one of a function. */               \
            *(void **)&known = dlsym(RTLD_NEXT, #NAME);                             \
            __atomic_store_n(&real, known, __ATOMIC_RELAXED);                       \
        }                                                                           \
        va_list arguments;                                                          \
        va_start(arguments, command);                                               \
        void *argument = va_arg(arguments, void *);                                 \
        va_end(arguments);                                                          \
        return call(known, fd, command, argument);                                  \
    }

FORWARDING(fcntl)
FORWARDING(fcntl64)
