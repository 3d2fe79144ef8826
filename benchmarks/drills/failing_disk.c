/* Preloaded into a process, makes calls on files below one folder fail as a full, broken or read-only disk would.

   failing_disk_arm(folder, at, code, stays, reads): the call with the number `at` (from 1) fails with errno `code`, and
   all later ones too where `stays`; with at = 0 calls are only counted. Counted are the calls that change files or
   folders, or with `reads` those that read files. failing_disk_count() says how many there were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long at, count;
static int code, stays, reads, armed;

void failing_disk_arm(const char *below, long nth, int error, int forever, int reading) {
    snprintf(folder, sizeof folder, "%s", below);
    at = nth, count = 0, code = error, stays = forever, reads = reading, armed = 1;
}

long failing_disk_count(void) { return count; }

static int is_below(int base, const char *path) {
    char whole[2 * PATH_MAX], here[PATH_MAX];
    size_t length = strlen(folder);
    if (path[0] != '/') { /* relative to a folder or to where the process stands */
        char link[64];
        ssize_t size;
        if (base == AT_FDCWD) {
            if (!getcwd(here, sizeof here)) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", base);
            if ((size = readlink(link, here, sizeof here - 1)) < 0) return 0;
            here[size] = 0;
        }
        snprintf(whole, sizeof whole, "%s/%s", here, path);
        path = whole;
    }
    return !strncmp(path, folder, length) && path[length] == '/';
}

static int is_open_below(int file) {
    char link[64], path[PATH_MAX];
    ssize_t size;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if ((size = readlink(link, path, sizeof path - 1)) < 0) return 0;
    path[size] = 0;
    return is_below(AT_FDCWD, path);
}

static int fails(int reading, int concerns) {
    if (!armed || reading != reads || !concerns) return 0;
    long number = __sync_add_and_fetch(&count, 1);
    if (!at || number < at || (number > at && !stays)) return 0;
    errno = code;
    return 1;
}

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }
static int is_making(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (armed && is_making(flags) && fails(0, is_below(AT_FDCWD, path))) return -1; \
        return REAL(int, name, const char *, int, mode_t)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int base, const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (armed && is_making(flags) && fails(0, is_below(base, path))) return -1; \
        return REAL(int, name, int, const char *, int, mode_t)(base, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define STREAM(name) \
    FILE *name(const char *path, const char *how) { \
        if (armed && how[0] != 'r' && fails(0, is_below(AT_FDCWD, path))) return NULL; \
        return REAL(FILE *, name, const char *, const char *)(path, how); \
    }
STREAM(fopen)
STREAM(fopen64)

/* calls on an open file: result type, name, whether it reads, parameters, arguments */
#define ON_FILE(type, name, reading, parameters, ...) \
    type name parameters { \
        if (armed && reading == reads && fails(reading, is_open_below(file))) return -1; \
        return ((type (*) parameters)real(#name))(__VA_ARGS__); \
    }
ON_FILE(ssize_t, write, 0, (int file, const void *from, size_t size), file, from, size)
ON_FILE(ssize_t, pwrite, 0, (int file, const void *from, size_t size, off_t place), file, from, size, place)
ON_FILE(ssize_t, pwrite64, 0, (int file, const void *from, size_t size, off64_t place), file, from, size, place)
ON_FILE(ssize_t, writev, 0, (int file, const struct iovec *from, int parts), file, from, parts)
ON_FILE(ssize_t, sendfile, 0, (int file, int from, off_t *place, size_t size), file, from, place, size)
ON_FILE(ssize_t, sendfile64, 0, (int file, int from, off64_t *place, size_t size), file, from, place, size)
ON_FILE(int, ftruncate, 0, (int file, off_t size), file, size)
ON_FILE(int, ftruncate64, 0, (int file, off64_t size), file, size)
ON_FILE(int, fsync, 0, (int file), file)
ON_FILE(int, fdatasync, 0, (int file), file)
ON_FILE(ssize_t, read, 1, (int file, void *to, size_t size), file, to, size)
ON_FILE(ssize_t, pread, 1, (int file, void *to, size_t size, off_t place), file, to, size, place)
ON_FILE(ssize_t, pread64, 1, (int file, void *to, size_t size, off64_t place), file, to, size, place)
ON_FILE(ssize_t, readv, 1, (int file, const struct iovec *to, int parts), file, to, parts)

ssize_t copy_file_range(int from, off64_t *start, int file, off64_t *place, size_t size, unsigned flags) {
    if (armed && !reads && fails(0, is_open_below(file))) return -1;
    return REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned)(
        from, start, file, place, size, flags);
}

/* calls on names: the one that concerns us is `path`, in the folder `base` */
#define ON_NAME(name, base, path, parameters, ...) \
    int name parameters { \
        if (armed && fails(0, is_below(base, path))) return -1; \
        return ((int (*) parameters)real(#name))(__VA_ARGS__); \
    }
ON_NAME(mkdir, AT_FDCWD, path, (const char *path, mode_t mode), path, mode)
ON_NAME(mkdirat, base, path, (int base, const char *path, mode_t mode), base, path, mode)
ON_NAME(rename, AT_FDCWD, path, (const char *from, const char *path), from, path)
ON_NAME(renameat, base, path, (int other, const char *from, int base, const char *path), other, from, base, path)
ON_NAME(link, AT_FDCWD, path, (const char *from, const char *path), from, path)
ON_NAME(symlink, AT_FDCWD, path, (const char *from, const char *path), from, path)

/* a full disk lets files be removed, a read-only one does not */
#define REMOVING(name, base, parameters, ...) \
    int name parameters { \
        if (armed && code == EROFS && fails(0, is_below(base, path))) return -1; \
        return ((int (*) parameters)real(#name))(__VA_ARGS__); \
    }
REMOVING(unlink, AT_FDCWD, (const char *path), path)
REMOVING(rmdir, AT_FDCWD, (const char *path), path)
REMOVING(unlinkat, base, (int base, const char *path, int flags), base, path, flags)
