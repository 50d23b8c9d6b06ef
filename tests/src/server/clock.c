/* The wall clock of one server, as a file says: preloaded into `redis-server`.
 *
 * It replaces what tells the time of day, and leaves the monotonic clocks alone. There is no
 * allocation and no dlsym here: the allocator of the server asks for the time itself, before
 * anything is set up. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

/* The file; the harness writes it while the server runs. The version is odd while it does. */
struct clock {
    uint64_t version;
    int64_t ahead_ns; /* of the machine's clock, at `since_ns` */
    int64_t since_ns; /* on the machine's clock */
    int64_t percent;  /* gained since then */
};

static const volatile struct clock *file;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("REDLOCK_TESTS_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = mmap(NULL, sizeof(struct clock), PROT_READ, MAP_SHARED, fd, 0);
    /* A test with a clock that does not obey would pass for the wrong reason. */
    if (mapped == MAP_FAILED) abort();
    close(fd);
    file = mapped;
}

static int64_t now_ns(void) {
    struct timespec raw = {0, 0};
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &raw);
    int64_t now = raw.tv_sec * SECOND + raw.tv_nsec;
    if (!file) return now;
    for (;;) {
        uint64_t version = __atomic_load_n(&file->version, __ATOMIC_ACQUIRE);
        int64_t ahead = file->ahead_ns + (now - file->since_ns) * file->percent / 100;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && file->version == version) return now + ahead;
    }
}

int clock_gettime(clockid_t id, struct timespec *out) {
    if (id != CLOCK_REALTIME) return syscall(SYS_clock_gettime, id, out);
    int64_t now = now_ns();
    out->tv_sec = now / SECOND;
    out->tv_nsec = now % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    int64_t now = now_ns();
    out->tv_sec = now / SECOND;
    out->tv_usec = now % SECOND / 1000;
    return 0;
}

time_t time(time_t *out) {
    time_t now = now_ns() / SECOND;
    if (out) *out = now;
    return now;
}
