/* faults.c - an interposer for LD_PRELOAD: the n-th call of a kind fails, so that a test can let
 * every call fail once.
 *
 * It counts what the tests are about: the core's allocations, told by the object that calls;
 * large allocations of anyone; files that are created; writes to regular files, fsync and
 * rename; reads and seeks in files of this folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CORE_ALLOCATION, LARGE_ALLOCATION, CREATE, WRITE, FSYNC, RENAME, READ, KINDS };
enum { LARGE = 1 << 16 };

static long first_failing[KINDS], last_failing[KINDS], calls[KINDS];
static int errors[KINDS];

/* From now on the calls of a kind from number `first` to `last`, counted from 1, fail with that
 * errno. */
void faults_arm(int kind, long first, long last, int error)
{
    first_failing[kind] = first, last_failing[kind] = last, errors[kind] = error;
    __atomic_store_n(&calls[kind], 0, __ATOMIC_RELAXED);
}

/* The calls of a kind since it was armed. */
long faults_calls(int kind) { return __atomic_load_n(&calls[kind], __ATOMIC_RELAXED); }

static int fails(int kind)
{
    long call = __atomic_add_fetch(&calls[kind], 1, __ATOMIC_RELAXED);
    if (call < first_failing[kind] || call > last_failing[kind])
        return 0;
    errno = errors[kind];
    return 1;
}

/* ---- memory ---- */

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static int is_of_core(void *caller)
{
    Dl_info object;
    if (!dladdr(caller, &object) || !object.dli_fname)
        return 0;
    return strstr(object.dli_fname, "/_seq.") || strstr(object.dli_fname, "/_omp.");
}

static int no_memory(size_t bytes) { return bytes >= LARGE && fails(LARGE_ALLOCATION); }

void *malloc(size_t bytes) { return no_memory(bytes) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t size)
{ return size && no_memory(n * size) ? NULL : __libc_calloc(n, size); }
void *realloc(void *old, size_t bytes)
{ return no_memory(bytes) ? NULL : __libc_realloc(old, bytes); }
void *aligned_alloc(size_t line, size_t bytes)
{ return no_memory(bytes) ? NULL : __libc_memalign(line, bytes); }

int posix_memalign(void **memory, size_t line, size_t bytes)
{
    if (is_of_core(__builtin_return_address(0)) ? fails(CORE_ALLOCATION) : no_memory(bytes))
        return ENOMEM;
    *memory = __libc_memalign(line, bytes);
    return *memory ? 0 : ENOMEM;
}

/* ---- files ---- */

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_regular(int file)
{
    struct stat about;
    return !fstat(file, &about) && S_ISREG(about.st_mode);
}

ssize_t write(int file, const void *bytes, size_t count)
{
    return is_regular(file) && fails(WRITE) ? -1 : NEXT(write)(file, bytes, count);
}

/* Whether a file lies in the current folder: Python reads many others. */
static int is_here(int file)
{
    char link[64], path[4096], here[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || !getcwd(here, sizeof here))
        return 0;
    path[length] = '\0';
    return !strncmp(path, here, strlen(here));
}

ssize_t read(int file, void *bytes, size_t count)
{
    return is_regular(file) && is_here(file) && fails(READ) ? -1 : NEXT(read)(file, bytes, count);
}

#define READING(name, offset) \
    ssize_t name(int file, void *bytes, size_t count, offset at) \
    { \
        return is_here(file) && fails(READ) ? -1 : NEXT(name)(file, bytes, count, at); \
    }
READING(pread, off_t)
READING(pread64, off64_t)

#define SEEKING(name, offset) \
    offset name(int file, offset to, int at) \
    { return is_here(file) && fails(READ) ? -1 : NEXT(name)(file, to, at); }
SEEKING(lseek, off_t)
SEEKING(lseek64, off64_t)

int fsync(int file) { return is_regular(file) && fails(FSYNC) ? -1 : NEXT(fsync)(file); }
int rename(const char *from, const char *to) { return fails(RENAME) ? -1 : NEXT(rename)(from, to); }

#define OPENING(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        return flags & O_CREAT && fails(CREATE) ? -1 : NEXT(name)(path, flags, mode); \
    }
OPENING(open)
OPENING(open64)
