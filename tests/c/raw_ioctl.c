/* A client of the device files without any library of ours: one command per line on standard
 * input, one line of answer each. Tests drive several of these processes step by step.
 *
 *   open NAME FLAGS PATH          ok | errno N
 *   close NAME | dup NAME NEW     ok | errno N
 *   ioctl NAME CMD ARG            RET ERRNO [BYTES]
 *       ARG: null, raw:VALUE, bad (an address that is not mapped) or BYTES in hex, which are put
 *       into a buffer of their own and shown again after the call
 *   buffer BYTES                  ADDRESS of a buffer with these bytes, for structs that point to one
 *   show COUNT                    BYTES of that buffer
 *   read NAME COUNT | write NAME BYTES | pread NAME COUNT | lseek NAME | truncate NAME
 *   poll NAME | epoll NAME        RET ERRNO [EVENTS]
 *   mmap MAP NAME OFFSET LENGTH PROT    ok | errno N   (PROT: r, w or rw; shared)
 *   peek MAP OFFSET COUNT         BYTES
 *   poke MAP OFFSET BYTES         ok
 *   munmap MAP                    ok | errno N
 *   child COMMAND...              the answer of a forked child, which then exits
 *   thread COMMAND...             the answer of a second thread of this process
 *   handler SIGNAL                ok       (a handler that does nothing, calls are not restarted)
 *   exec                          ok, from the program run again in place; names are lost
 *   bench NAME CMD COUNT          nanoseconds per call on a zeroed page; cmd 0: getppid
 *   pid | uid UID | exit STATUS
 *
 * NAME and MAP are single letters. Numbers are decimal or begin with 0x. A replay of recorded
 * transcripts speaks this protocol too: each actor of a transcript is one such process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Room for a mebibyte and more in hex. */
#define LINE 5000000
#define ANSWER 5000000

static int files[128];
static uint8_t buffer[LINE];
static struct { uint8_t *at; size_t length; } maps[128];

static void command(char *line, char *out);

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static size_t unhex(const char *text, uint8_t *bytes)
{
    size_t n = 0;
    int high, low;
    while ((high = digit(text[2 * n])) >= 0 && (low = digit(text[2 * n + 1])) >= 0)
        bytes[n++] = (uint8_t)(high << 4 | low);
    return n;
}

static void hex(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

static void ok_or_errno(char *out, int failed)
{
    if (failed)
        sprintf(out, "errno %d", errno);
    else
        strcpy(out, "ok");
}

static void result(char *out, long ret)
{
    sprintf(out, "%ld %d", ret, ret == -1 ? errno : 0);
}

static void do_ioctl(char *out, int fd, unsigned long cmd, const char *arg)
{
    static _Thread_local uint8_t argument[16384];
    if (strcmp(arg, "null") == 0) {
        result(out, ioctl(fd, cmd, NULL));
    } else if (strncmp(arg, "raw:", 4) == 0) {
        result(out, ioctl(fd, cmd, strtoul(arg + 4, NULL, 0)));
    } else if (strcmp(arg, "bad") == 0) {
        result(out, ioctl(fd, cmd, (void *)0x10));
    } else {
        size_t n = unhex(arg, argument);
        /* The C library turns results from -1 to -4095 into errno; 524 is among them. */
        result(out, ioctl(fd, cmd, argument));
        strcat(out, " ");
        hex(out + strlen(out), argument, n);
    }
}

static void do_bench(char *out, int fd, unsigned long cmd, long count)
{
    struct timespec start, end;
    static uint8_t argument[4096];
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long i = 0; i < count; i++) {
        if (cmd == 0)
            syscall(SYS_getppid);
        else
            ioctl(fd, cmd, argument);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    sprintf(out, "%ld", (long)(ns / (double)count));
}

static void do_child(char *line, char *out)
{
    int ends[2];
    if (pipe(ends) != 0) {
        strcpy(out, "no pipe");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        static char answer[ANSWER];
        command(line, answer);
        ssize_t written = write(ends[1], answer, strlen(answer));
        _exit(written < 0);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while ((got = read(ends[0], out + n, ANSWER - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = 0;
    close(ends[0]);
    waitpid(pid, NULL, 0);
}

struct job { char *line, *out; };

static void *in_thread(void *job)
{
    command(((struct job *)job)->line, ((struct job *)job)->out);
    return NULL;
}

static void do_thread(char *line, char *out)
{
    pthread_t thread;
    struct job job = { line, out };
    if (pthread_create(&thread, NULL, in_thread, &job) != 0)
        strcpy(out, "no thread");
    else
        pthread_join(thread, NULL);
}

static void nothing(int signal)
{
    (void)signal;
}

static void command(char *line, char *out)
{
    /* A second thread only runs while the first waits for it. */
    static uint8_t bytes[LINE];
    static char text[LINE];
    char word[16] = "", name = 0, other = 0, prot[8] = "";
    unsigned long a = 0, b = 0;
    size_t length = 0;
    int skip = 0;

    sscanf(line, "%15s %n", word, &skip);
    char *rest = line + skip;
    strcpy(out, "unknown command");
    if (strcmp(word, "child") == 0) {
        do_child(rest, out);
    } else if (strcmp(word, "thread") == 0) {
        do_thread(rest, out);
    } else if (strcmp(word, "pid") == 0) {
        sprintf(out, "%d", (int)getpid());
    } else if (strcmp(word, "uid") == 0) {
        ok_or_errno(out, setuid((uid_t)atoi(rest)));
    } else if (strcmp(word, "exit") == 0) {
        exit(atoi(rest));
    } else if (strcmp(word, "exec") == 0) {
        execl("/proc/self/exe", "raw_ioctl", "again", (char *)NULL);
    } else if (strcmp(word, "handler") == 0) {
        struct sigaction action = { .sa_handler = nothing };
        ok_or_errno(out, sigaction(atoi(rest), &action, NULL));
    } else if (strcmp(word, "buffer") == 0) {
        unhex(rest, buffer);
        sprintf(out, "%llu", (unsigned long long)(uintptr_t)buffer);
    } else if (sscanf(line, "show %zu", &length) == 1) {
        hex(out, buffer, length);
    } else if (sscanf(line, "open %c %li %s", &name, (long *)&a, text) == 3) {
        int fd = open(text, (int)a);
        files[(int)name] = fd;
        ok_or_errno(out, fd < 0);
    } else if (sscanf(line, "dup %c %c", &name, &other) == 2) {
        files[(int)other] = dup(files[(int)name]);
        ok_or_errno(out, files[(int)other] < 0);
    } else if (sscanf(line, "close %c", &name) == 1) {
        ok_or_errno(out, close(files[(int)name]));
    } else if (sscanf(line, "ioctl %c %li %s", &name, (long *)&a, text) == 3) {
        do_ioctl(out, files[(int)name], a, text);
    } else if (sscanf(line, "bench %c %li %li", &name, (long *)&a, (long *)&b) == 3) {
        do_bench(out, files[(int)name], a, (long)b);
    } else if (sscanf(line, "read %c %zu", &name, &length) == 2) {
        result(out, read(files[(int)name], bytes, length));
    } else if (sscanf(line, "pread %c %zu", &name, &length) == 2) {
        result(out, pread(files[(int)name], bytes, length, 0));
    } else if (sscanf(line, "write %c %s", &name, text) == 2) {
        length = unhex(text, bytes);
        result(out, write(files[(int)name], bytes, length));
    } else if (sscanf(line, "lseek %c", &name) == 1) {
        result(out, lseek(files[(int)name], 0, SEEK_SET));
    } else if (sscanf(line, "truncate %c", &name) == 1) {
        result(out, ftruncate(files[(int)name], 0));
    } else if (sscanf(line, "poll %c", &name) == 1) {
        struct pollfd fd = { .fd = files[(int)name], .events = POLLIN | POLLOUT };
        result(out, poll(&fd, 1, 0));
        sprintf(out + strlen(out), " %d", fd.revents);
    } else if (sscanf(line, "epoll %c", &name) == 1) {
        struct epoll_event event = { .events = EPOLLIN };
        int epoll = epoll_create1(0);
        result(out, epoll_ctl(epoll, EPOLL_CTL_ADD, files[(int)name], &event));
        close(epoll);
    } else if (sscanf(line, "mmap %c %c %li %zi %7s", &other, &name, (long *)&a, (long *)&length, prot) == 5) {
        int bits = (strchr(prot, 'r') ? PROT_READ : 0) | (strchr(prot, 'w') ? PROT_WRITE : 0);
        void *at = mmap(NULL, length, bits, MAP_SHARED, files[(int)name], (off_t)a);
        maps[(int)other].at = at;
        maps[(int)other].length = length;
        ok_or_errno(out, at == MAP_FAILED);
    } else if (sscanf(line, "peek %c %li %zu", &name, (long *)&a, &length) == 3) {
        hex(out, maps[(int)name].at + a, length);
    } else if (sscanf(line, "poke %c %li %s", &name, (long *)&a, text) == 3) {
        length = unhex(text, bytes);
        memcpy(maps[(int)name].at + a, bytes, length);
        strcpy(out, "ok");
    } else if (sscanf(line, "munmap %c", &name) == 1) {
        ok_or_errno(out, munmap(maps[(int)name].at, maps[(int)name].length));
    }
}

int main(int argc, char **argv)
{
    static char line[LINE], out[ANSWER];
    (void)argv;
    if (argc > 1) {
        puts("ok");
        fflush(stdout);
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        out[0] = 0;
        command(line, out);
        puts(out);
        fflush(stdout);
    }
    return 0;
}
