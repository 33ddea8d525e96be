/* Counts the system calls that leave something behind; at the one that was asked for, something happens.

   Loaded with LD_PRELOAD. The variable LC_CRASH names a file with a `struct crash`; processes without it are left
   alone. The calls of all processes that name the same file are counted together. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

struct crash {
    uint32_t count;     /* how many calls there were */
    uint32_t at;        /* the call at which something happens; 0: none */
    uint32_t fault;     /* what happens */
    uint32_t hit;       /* the pid that came to the call */
    char what[112];     /* the call and its file */
    char root[128];     /* files elsewhere do not count */
};

/* The process is killed; it stops and waits for others to act; the disk is full from now on; this call fails. */
enum { KILL, STOP, FULL, BROKEN };

static struct crash *shared;
static pid_t owner;
static int forked; /* a supervisor, which is a fork of Segue and not a program of its own */

static struct crash *find(void) {
    const char *path;
    if (shared || !(path = getenv("LC_CRASH")))
        return shared;
    static int (*real)(const char *, int, ...);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "open");
    int fd = real(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *page = mmap(NULL, sizeof(struct crash), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return NULL;
    return shared = page;
}

/* A process that only forks to execute a program borrows the name of the one that forked it. */
static void become(void) {
    if (!shared)
        owner = getpid();
}

static void become_forked(void) {
    forked = getenv("LC_CRASH") != NULL; /* else it becomes Segue */
    become();
}

__attribute__((constructor)) static void begin(void) {
    become();
    pthread_atfork(NULL, NULL, become_forked);
}

static void say(char *out, size_t size, const char *call, const char *file) {
    size_t length = strlen(call), room = size - length - 2, all = strlen(file);
    memcpy(out, call, length);
    out[length] = ' ';
    strncpy(out + length + 1, all > room ? file + all - room : file, room);
}

/* Where one process is killed, that is Segue. */
static int counts(const struct crash *crash, const char *file) {
    return crash && !(forked && crash->fault == KILL) && (file[0] != '/' || !strncmp(file, crash->root, strlen(crash->root)));
}

/* Counts a call; returns whether it is the one that must fail. */
static int point(const char *call, const char *file) {
    int before = errno, fails = 0;
    struct crash *crash = find();
    if (counts(crash, file) && __atomic_add_fetch(&crash->count, 1, __ATOMIC_SEQ_CST) == crash->at) {
        say(crash->what, sizeof crash->what, call, file);
        /* A process about to execute a program still shares the memory of the one that forked it. */
        pid_t victim = crash->fault == KILL ? owner : getpid();
        __atomic_store_n(&crash->hit, victim, __ATOMIC_SEQ_CST);
        fails = crash->fault == BROKEN;
        if (crash->fault < FULL)
            kill(victim, crash->fault == KILL ? SIGKILL : SIGSTOP);
        if (victim != getpid())
            _exit(127);
    }
    errno = fails ? EIO : before;
    return fails;
}

static int is_full(const char *file) {
    return counts(shared, file) && shared->fault == FULL && shared->hit;
}

static int name_file(int fd, char *name, size_t size) {
    char link[32] = "/proc/self/fd/";
    struct stat found;
    if (fd < 3 || !find() || fstat(fd, &found) || !(S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)))
        return 0;
    int digits = 0;
    for (int rest = fd; rest || !digits; rest /= 10)
        digits++;
    for (int place = digits, rest = fd; place--; rest /= 10)
        link[14 + place] = '0' + rest % 10;
    ssize_t length = readlink(link, name, size - 1);
    name[length > 0 ? length : 0] = 0;
    return 1;
}

static int point_at(const char *call, int fd) {
    char name[256];
    return name_file(fd, name, sizeof name) && point(call, name);
}

/* What a file has already can be written again on a full disk. */
static int is_full_at(int fd, off_t end) {
    char name[256];
    struct stat found;
    return shared && shared->fault == FULL && shared->hit && name_file(fd, name, sizeof name) && is_full(name) &&
           !fstat(fd, &found) && end > found.st_size;
}

static off_t end_of(int fd, size_t n) {
    struct stat found;
    int flags = fcntl(fd, F_GETFL);
    off_t at = flags >= 0 && flags & O_APPEND && !fstat(fd, &found) ? found.st_size : lseek(fd, 0, SEEK_CUR);
    return at + (off_t)n;
}

static int there(int folder, const char *path) {
    int before = errno, found = !faccessat(folder, path, F_OK, AT_SYMLINK_NOFOLLOW);
    errno = before;
    return found;
}

/* Talking to a database counts; waking the own event loop does not. */
static int connected(int fd) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    int before = errno, found = !getpeername(fd, (struct sockaddr *)&peer, &size) && size > sizeof(sa_family_t);
    errno = before;
    return found;
}

/* A connection whose call fails is broken: clients such as libpq wait for the answer otherwise. */
static int is_cut(int fd) {
    if (!connected(fd) || !point("send", ""))
        return 0;
    shutdown(fd, SHUT_RDWR);
    errno = EPIPE;
    return 1;
}

#define REAL(name)                                           \
    static void *real;                                       \
    if (!real)                                               \
        real = dlsym(RTLD_NEXT, #name);
#define FAIL_IF(full)                                        \
    if (full) {                                              \
        errno = ENOSPC;                                      \
        return -1;                                           \
    }
#define FAIL_AT(point)                                       \
    if (point)                                               \
        return -1;
#define CALL(result, name, before, types, names)             \
    result name types {                                      \
        REAL(name)                                           \
        before                                               \
        return ((result(*) types)real) names;                \
    }

CALL(int, fsync, FAIL_AT(point_at("fsync", fd)), (int fd), (fd))
CALL(int, fdatasync, FAIL_AT(point_at("fdatasync", fd)), (int fd), (fd))
CALL(int, ftruncate, FAIL_AT(point_at("ftruncate", fd)), (int fd, off_t n), (fd, n))
CALL(int, ftruncate64, FAIL_AT(point_at("ftruncate", fd)), (int fd, off_t n), (fd, n))
CALL(ssize_t, write, FAIL_AT(point_at("write", fd)) FAIL_IF(is_full_at(fd, end_of(fd, n))), (int fd, const void *b, size_t n), (fd, b, n))
CALL(ssize_t, pwrite, FAIL_IF(is_full_at(fd, o + (off_t)n)), (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
CALL(int, posix_fallocate, if (is_full_at(fd, o + n)) return ENOSPC;, (int fd, off_t o, off_t n), (fd, o, n))
CALL(int, posix_fallocate64, if (is_full_at(fd, o + n)) return ENOSPC;, (int fd, off_t o, off_t n), (fd, o, n))
CALL(ssize_t, pwrite64, FAIL_IF(is_full_at(fd, o + (off_t)n)), (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
CALL(int, rename, FAIL_AT(point("rename", b)), (const char *a, const char *b), (a, b))
CALL(int, renameat, FAIL_AT(point("rename", b)), (int f, const char *a, int t, const char *b), (f, a, t, b))
CALL(int, renameat2, FAIL_AT(point("rename", b)), (int f, const char *a, int t, const char *b, unsigned g), (f, a, t, b, g))
CALL(int, unlink, FAIL_AT(there(AT_FDCWD, a) && point("unlink", a)), (const char *a), (a))
CALL(int, unlinkat, FAIL_AT(there(f, a) && point("unlink", a)), (int f, const char *a, int g), (f, a, g))
CALL(int, link, FAIL_AT(point("link", b)), (const char *a, const char *b), (a, b))
CALL(int, linkat, FAIL_AT(point("link", b)), (int f, const char *a, int t, const char *b, int g), (f, a, t, b, g))
CALL(int, symlink, FAIL_AT(point("symlink", b)), (const char *a, const char *b), (a, b))
CALL(int, mkdir, FAIL_AT(!there(AT_FDCWD, a) && point("mkdir", a)) FAIL_IF(is_full(a)), (const char *a, mode_t m), (a, m))
CALL(int, mkdirat, FAIL_AT(!there(f, a) && point("mkdir", a)) FAIL_IF(is_full(a)), (int f, const char *a, mode_t m), (f, a, m))
CALL(int, rmdir, FAIL_AT(there(AT_FDCWD, a) && point("rmdir", a)), (const char *a), (a))
CALL(int, execve, FAIL_AT(!access(a, X_OK) && point("execve", strrchr(a, '/') ? strrchr(a, '/') + 1 : a)), (const char *a, char *const v[], char *const e[]), (a, v, e))
CALL(ssize_t, send, FAIL_AT(is_cut(fd)), (int fd, const void *b, size_t n, int g), (fd, b, n, g))

/* Opening a file counts when it creates or empties it. */
static int leaves(int folder, const char *path, int flags) {
    if (!(flags & (O_CREAT | O_TRUNC)) || !strncmp(path, "/dev/", 5))
        return 0;
    return flags & O_TRUNC || !there(folder, path);
}

#define OPEN(name)                                           \
    int name(const char *path, int flags, ...) {             \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = va_arg(rest, mode_t);                  \
        va_end(rest);                                        \
        REAL(name)                                           \
        if (leaves(AT_FDCWD, path, flags)) {                 \
            FAIL_AT(point("open", path))                     \
            FAIL_IF(is_full(path))                           \
        }                                                    \
        return ((int (*)(const char *, int, ...))real)(path, flags, mode); \
    }
#define OPENAT(name)                                         \
    int name(int folder, const char *path, int flags, ...) { \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = va_arg(rest, mode_t);                  \
        va_end(rest);                                        \
        REAL(name)                                           \
        if (leaves(folder, path, flags)) {                   \
            FAIL_AT(point("open", path))                     \
            FAIL_IF(is_full(path))                           \
        }                                                    \
        return ((int (*)(int, const char *, int, ...))real)(folder, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
