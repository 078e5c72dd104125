/* Reads many sockets, stamps every read, keeps the bytes: the hot path of a sending process.

   One call of receiver_drain reads every socket that has something, once, as epoll_wait(2) tells it.
   Nothing is interpreted, but for one question: could this read be the last of its response? A body
   in chunks ends with an empty line (RFC 9112, 7.1), so of a response whose head says that it has
   one, only what ends with an empty line is told to the caller, who has a parser.
   harness/loadgen/receiver.py says what each function is given and gives back.

   Built without Python's headers, so that one compiler call is all that it takes. */

#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* How long receiver_drain may stay for more, in ms for epoll_wait and in ns. */
enum { STAY_MS = 1, STAY_NS = 1000000 };
static const uint32_t ALARM = UINT32_MAX; /* the place of a file that is only waited for */
enum { MOST_HEAD_BYTES = 16 * 1024, READ_BYTES = 256 * 1024, EVENTS = 512, FIRST_BYTES = 4096, FIRST_READS = 64 };

/* Why the caller is told of a connection; harness/loadgen/receiver.py has the same numbers. */
enum { NOTICE_READ = 0, NOTICE_CLOSED = 1, NOTICE_TOO_LARGE = 2, NOTICE_ERRNO = 16 };

typedef struct {
    int fd; /* -1: the place is free */
    size_t head_bytes; /* of a head that says `chunked`; 0 while that is not known */
    char *bytes;
    size_t used, room;
    int64_t *stamps_ns; /* when each read came */
    uint32_t *ends;     /* where in `bytes` each read ends */
    size_t reads, reads_room;
} connection;

typedef struct {
    int epoll;
    connection *all;
    int count;
    size_t most_bytes;
    uint64_t reads;
    int64_t left_ns; /* when receiver_drain returned last */
    char buffer[READ_BYTES];
} receiver;

/* What was read of the exchange in progress; valid until the next call. */
typedef struct {
    const char *bytes;
    uint64_t used;
    const int64_t *stamps_ns;
    const uint32_t *ends;
    uint64_t reads;
} view;

static const char hex[] = "0123456789abcdef";

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

receiver *receiver_open(uint64_t most_bytes) {
    receiver *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    self->most_bytes = most_bytes;
    if (self->epoll < 0) {
        free(self);
        return NULL;
    }
    return self;
}

int receiver_fd(const receiver *self) { return self->epoll; }

uint64_t receiver_reads(const receiver *self) { return self->reads; }

static int free_place(receiver *self) {
    for (int i = 0; i < self->count; i++)
        if (self->all[i].fd < 0) return i;
    int more = self->count ? 2 * self->count : 64;
    connection *all = realloc(self->all, more * sizeof *all);
    if (!all) return -1;
    memset(all + self->count, 0, (more - self->count) * sizeof *all);
    for (int i = self->count; i < more; i++) all[i].fd = -1;
    int place = self->count;
    self->all = all;
    self->count = more;
    return place;
}

int receiver_add(receiver *self, int fd) {
    int place = free_place(self);
    if (place < 0) return -ENOMEM;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)place};
    if (epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event)) return -errno;
    connection *c = &self->all[place];
    c->fd = fd;
    c->used = c->reads = c->head_bytes = 0;
    return place;
}

static void stop_reading(receiver *self, connection *c) {
    epoll_ctl(self->epoll, EPOLL_CTL_DEL, c->fd, NULL);
}

void receiver_remove(receiver *self, int place) {
    connection *c = &self->all[place];
    if (c->fd < 0) return;
    stop_reading(self, c);
    free(c->bytes);
    free(c->stamps_ns);
    free(c->ends);
    memset(c, 0, sizeof *c);
    c->fd = -1;
}

void receiver_close(receiver *self) {
    for (int i = 0; i < self->count; i++) receiver_remove(self, i);
    close(self->epoll);
    free(self->all);
    free(self);
}

void receiver_begin(receiver *self, int place) {
    connection *c = &self->all[place];
    c->used = c->reads = c->head_bytes = 0;
}

void receiver_view(const receiver *self, int place, view *out) {
    const connection *c = &self->all[place];
    *out = (view){c->bytes, c->used, c->stamps_ns, c->ends, c->reads};
}

static int keep(connection *c, const char *bytes, size_t length, int64_t stamp_ns) {
    if (c->used + length > c->room) {
        size_t room = c->room ? c->room : FIRST_BYTES;
        while (room < c->used + length) room *= 2;
        char *grown = realloc(c->bytes, room);
        if (!grown) return 0;
        c->bytes = grown;
        c->room = room;
    }
    if (c->reads == c->reads_room) {
        size_t room = c->reads_room ? 2 * c->reads_room : FIRST_READS;
        int64_t *stamps_ns = realloc(c->stamps_ns, room * sizeof *stamps_ns);
        if (!stamps_ns) return 0;
        c->stamps_ns = stamps_ns;
        uint32_t *ends = realloc(c->ends, room * sizeof *ends);
        if (!ends) return 0;
        c->ends = ends;
        c->reads_room = room;
    }
    memcpy(c->bytes + c->used, bytes, length);
    c->used += length;
    c->stamps_ns[c->reads] = stamp_ns;
    c->ends[c->reads] = (uint32_t)c->used;
    c->reads++;
    return 1;
}

/* The length of the head of a response in chunks, when all of it has come; 0 for any other. */
static size_t chunked_head(const connection *c) {
    static const char coding[] = "\r\ntransfer-encoding: chunked\r\n";
    size_t within = c->used < MOST_HEAD_BYTES ? c->used : MOST_HEAD_BYTES;
    const char *end = memmem(c->bytes, within, "\r\n\r\n", 4);
    if (!end || c->used < 9 || memcmp(c->bytes, "HTTP/1.1 ", 9)) return 0;
    for (const char *at = c->bytes; at + sizeof coding - 1 <= end + 2; at++)
        if (*at == '\r' && !strncasecmp(at, coding, sizeof coding - 1)) return (size_t)(end + 4 - c->bytes);
    return 0;
}

/* The length of the head when all that came after it is chunks, whole, the last of them empty and
   without trailers; 0 when it is not, or not known. Looks at the sizes alone. */
uint64_t receiver_whole(const receiver *self, int place) {
    const connection *c = &self->all[place];
    size_t at = c->head_bytes;
    if (!at) return 0;
    for (;;) {
        size_t size = 0, digits = 0;
        for (; at < c->used && digits < 8 && isxdigit((unsigned char)c->bytes[at]); at++, digits++)
            size = 16 * size + (size_t)strchr(hex, tolower((unsigned char)c->bytes[at])) - (size_t)hex;
        if (!digits || c->used - at < 4 || memcmp(c->bytes + at, "\r\n", 2)) return 0;
        at += 2;
        if (size > c->used - at || c->used - at - size < 2) return 0;
        at += size;
        if (memcmp(c->bytes + at, "\r\n", 2)) return 0;
        at += 2;
        if (!size) return at == c->used ? c->head_bytes : 0;
    }
}

static int ends_with_empty_line(const connection *c) {
    return c->used >= 4 && !memcmp(c->bytes + c->used - 4, "\r\n\r\n", 4);
}

/* Reads one socket once. The notice that the caller needs, or -1. */
static int read_one(receiver *self, connection *c) {
    ssize_t length = recv(c->fd, self->buffer, READ_BYTES, MSG_DONTWAIT);
    int64_t stamp_ns = now_ns();
    if (length < 0) {
        if (errno == EAGAIN || errno == EINTR) return -1;
        stop_reading(self, c);
        return NOTICE_ERRNO + errno;
    }
    if (!length) {
        stop_reading(self, c);
        return NOTICE_CLOSED;
    }
    self->reads++;
    if (!keep(c, self->buffer, (size_t)length, stamp_ns)) {
        stop_reading(self, c);
        return NOTICE_ERRNO + ENOMEM;
    }
    if (c->used >= self->most_bytes) {
        stop_reading(self, c);
        return NOTICE_TOO_LARGE;
    }
    if (!c->head_bytes) c->head_bytes = chunked_head(c);
    return !c->head_bytes || ends_with_empty_line(c) ? NOTICE_READ : -1;
}

int receiver_ring_for(receiver *self, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = ALARM};
    return epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Where reads come thick and fast, stays for more: going back to the caller's loop and coming here
   again costs as much as a read. Returns at once when there is a notice, or the alarm rings. */
int receiver_drain(receiver *self, int32_t *places, int32_t *notices, int may_stay) {
    struct epoll_event events[EVENTS];
    int told = 0, rings = 0, wait_ms = 0;
    int64_t came_ns = now_ns();
    int stays = may_stay && came_ns - self->left_ns < STAY_NS;
    do {
        int ready = epoll_wait(self->epoll, events, EVENTS, wait_ms);
        for (int i = 0; i < ready; i++) {
            uint32_t place = events[i].data.u32;
            if (place == ALARM) {
                rings = 1;
                continue;
            }
            if (self->all[place].fd < 0) continue;
            int notice = read_one(self, &self->all[place]);
            if (notice < 0) continue;
            places[told] = (int32_t)place;
            notices[told++] = notice;
        }
        if (ready <= 0 && wait_ms) break;
        wait_ms = STAY_MS;
        self->left_ns = now_ns();
    } while (stays && !told && !rings && self->left_ns - came_ns < STAY_NS);
    return told;
}
