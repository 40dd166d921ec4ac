/*
 * A disk that fails and a clock that jumps, for a process that is started with this library preloaded (LD_PRELOAD).
 *
 * EVENTJOBS_SHIM names a file that holds `struct control`; it is mapped, so that whoever else maps it can watch and
 * change what happens while the process runs. Only calls on a file named data.mdb are counted, and can fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define KINDS 4096
#define BILLION 1000000000LL

enum { DONE_HALF = -1, DONE_ALL = -2 };

struct control {
    int64_t clock_offset; /* nanoseconds added to the wall clock */
    int64_t fail_at;      /* which of the calls counted fails first, from 1; 0 for none */
    int64_t failures;     /* how many calls fail, one after another */
    int64_t first;        /* how the first of them fails: an errno; DONE_HALF: it writes half of what it was given and
                             says so; DONE_ALL: it does all and says EIO */
    int64_t others;       /* how the others fail */
    int64_t only;         /* the kind of calls that are counted; 0 for all */
    int64_t calls;        /* calls counted so far */
    int64_t failed;       /* calls that failed so far */
    char kinds[KINDS];    /* what each call counted was: w a write, s a flush, m a write to the synchronous descriptor,
                             through which LMDB writes its head */
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("EVENTJOBS_SHIM");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        control = map;
}

static int is_data_file(int fd) {
    static const char name[] = "/data.mdb";
    char link[64] = "/proc/self/fd/", path[4096], digits[16];
    struct stat found;
    int count = 0, end = (int)strlen(link);
    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode))
        return 0;
    for (int rest = fd; count == 0 || rest > 0; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    while (count > 0)
        link[end++] = digits[--count];
    link[end] = 0;
    ssize_t length = readlink(link, path, sizeof path);
    ssize_t tail = (ssize_t)sizeof name - 1;
    return length >= tail && memcmp(path + length - tail, name, (size_t)tail) == 0;
}

/* How the call fails: 0 if it does not. */
static int64_t fate(int fd, char kind) {
    int kept = errno;
    if (control == NULL || !is_data_file(fd)) {
        errno = kept;
        return 0;
    }
    if (kind == 'w' && (fcntl(fd, F_GETFL) & O_DSYNC))
        kind = 'm';
    errno = kept;
    if (control->only != 0 && control->only != kind)
        return 0;
    int64_t number = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
    if (number <= KINDS)
        control->kinds[number - 1] = kind;
    int64_t after = number - control->fail_at;
    if (control->fail_at == 0 || after < 0 || after >= control->failures)
        return 0;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_SEQ_CST);
    return after == 0 ? control->first : control->others;
}

static ssize_t failed(int64_t how) {
    errno = how == DONE_ALL ? EIO : (int)how;
    return -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t place) {
    int64_t how = fate(fd, 'w');
    if (how > 0)
        return failed(how);
    ssize_t written = syscall(SYS_pwrite64, fd, bytes, how == DONE_HALF ? size / 2 : size, place);
    return how == DONE_ALL ? failed(how) : written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t place) { return pwrite(fd, bytes, size, place); }

ssize_t write(int fd, const void *bytes, size_t size) {
    int64_t how = fate(fd, 'w');
    if (how > 0)
        return failed(how);
    ssize_t written = syscall(SYS_write, fd, bytes, how == DONE_HALF ? size / 2 : size);
    return how == DONE_ALL ? failed(how) : written;
}

/* Half of several pieces: the first half of the pieces, or of the only one. */
static ssize_t half(int fd, const struct iovec *pieces, int count) {
    if (count > 1)
        return syscall(SYS_writev, fd, pieces, count / 2);
    return syscall(SYS_write, fd, pieces->iov_base, pieces->iov_len / 2);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    int64_t how = fate(fd, 'w');
    if (how > 0)
        return failed(how);
    if (how == DONE_HALF)
        return half(fd, pieces, count);
    ssize_t written = syscall(SYS_writev, fd, pieces, count);
    return how == DONE_ALL ? failed(how) : written;
}

ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t place) {
    int64_t how = fate(fd, 'w');
    if (how > 0)
        return failed(how);
    if (how == DONE_HALF)
        return lseek(fd, place, SEEK_SET) < 0 ? -1 : half(fd, pieces, count);
    ssize_t written = syscall(SYS_pwritev, fd, pieces, count, (unsigned long)place, (unsigned long)0);
    return how == DONE_ALL ? failed(how) : written;
}

ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t place) {
    return pwritev(fd, pieces, count, place);
}

/* A flush has no half: it is done, and says that it failed. */
static int flush(int fd, long call) {
    int64_t how = fate(fd, 's');
    if (how > 0)
        return (int)failed(how);
    int result = (int)syscall(call, fd);
    return how < 0 ? (int)failed(DONE_ALL) : result;
}

int fdatasync(int fd) { return flush(fd, SYS_fdatasync); }

int fsync(int fd) { return flush(fd, SYS_fsync); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && control != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t offset = __atomic_load_n(&control->clock_offset, __ATOMIC_SEQ_CST);
        int64_t nanoseconds = time->tv_nsec + offset % BILLION;
        time->tv_sec += offset / BILLION;
        if (nanoseconds < 0 || nanoseconds >= BILLION) {
            time->tv_sec += nanoseconds < 0 ? -1 : 1;
            nanoseconds += nanoseconds < 0 ? BILLION : -BILLION;
        }
        time->tv_nsec = nanoseconds;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds != NULL)
        *seconds = now.tv_sec;
    return now.tv_sec;
}
