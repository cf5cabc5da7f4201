/* A client of the library that a test drives: a command per line on stdin, an answer per line on
 * stdout, after "= " because the library logs there too. It lives as long as the test wants it to, so several of them can stand side by side. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nrt/nrt.h"

static nrt_tensor_t *kept;
static size_t kept_size;

static void pattern(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 251);
}

static nrt_tensor_t *tensor(nrt_tensor_placement_t placement, int vnc, size_t size, int *status)
{
    nrt_tensor_t *t = NULL;
    *status = (int)nrt_tensor_allocate(placement, vnc, size, "t", &t);
    return t;
}

/* Bytes through a tensor and back, by every way there is; the answer names the first that fails. */
static const char *round_trip(int vnc, size_t size, int placement)
{
    static char failed[64];
    unsigned char *want = malloc(size), *have = malloc(size);
    int status;
    nrt_tensor_t *a = tensor((nrt_tensor_placement_t)placement, vnc, size, &status);
    nrt_tensor_t *b = tensor(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, &status);
    if (a == NULL || b == NULL || want == NULL || have == NULL) {
        snprintf(failed, sizeof failed, "allocate %d", status);
        return failed;
    }
#define STEP(name, condition)                                                                                          \
    if (!(condition)) {                                                                                                \
        snprintf(failed, sizeof failed, "%s", name);                                                                   \
        return failed;                                                                                                 \
    }
    pattern(want, size);
    STEP("write", nrt_tensor_write(a, want, 0, size) == NRT_SUCCESS);
    memset(have, 0, size);
    STEP("read", nrt_tensor_read(a, have, 0, size) == NRT_SUCCESS && memcmp(have, want, size) == 0);
    /* Pinned host memory and device memory are not on the same HBM, so they cannot be copied. */
    if (placement == NRT_TENSOR_PLACEMENT_HOST) {
        STEP("write b", nrt_tensor_write(b, want, 0, size) == NRT_SUCCESS);
    } else {
        STEP("copy", nrt_tensor_copy(a, 0, b, 0, size) == NRT_SUCCESS);
    }
    STEP("memset", nrt_tensor_memset(b, 1, 0x1aa, size / 2) == NRT_SUCCESS);
    memset(want + 1, 0xaa, size / 2);
    STEP("read b", nrt_tensor_read(b, have, 0, size) == NRT_SUCCESS && memcmp(have, want, size) == 0);
    /* Overlapping ranges, one way and the other. */
    STEP("move up", nrt_tensor_copy(b, 0, b, 7, size - 7) == NRT_SUCCESS);
    memmove(want + 7, want, size - 7);
    STEP("move down", nrt_tensor_copy(b, 9, b, 0, size - 9) == NRT_SUCCESS);
    memmove(want, want + 9, size - 9);
    STEP("read c", nrt_tensor_read(b, have, 0, size) == NRT_SUCCESS && memcmp(have, want, size) == 0);
    unsigned char *va = nrt_tensor_get_va(b);
    if (va != NULL) {
        STEP("va", memcmp(va, want, size) == 0);
        va[size - 1] ^= 0xff;
        want[size - 1] ^= 0xff;
        STEP("va write", nrt_tensor_read(b, have, 0, size) == NRT_SUCCESS && memcmp(have, want, size) == 0);
        /* Mapped device memory is also a buffer of the caller. */
        STEP("from va", nrt_tensor_write(a, va, 0, size) == NRT_SUCCESS);
        STEP("to va", nrt_tensor_memset(b, 0, 0, size) == NRT_SUCCESS && nrt_tensor_read(a, va, 0, size) == NRT_SUCCESS);
        STEP("read d", nrt_tensor_read(b, have, 0, size) == NRT_SUCCESS && memcmp(have, want, size) == 0);
    }
    nrt_tensor_device_allocation_info_t info;
    STEP("info", nrt_tensor_get_device_allocation_info(b, &info) == NRT_SUCCESS && info.size >= size);
    nrt_tensor_free(&a);
    nrt_tensor_free(&b);
    free(want);
    free(have);
    snprintf(failed, sizeof failed, "ok hbm %u%s", info.hbm_index, va != NULL ? " mapped" : "");
    return failed;
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

/* A large tensor written and read until many signals have come in, none of which restarts a call. */
static const char *storm(int vnc, size_t size)
{
    unsigned char *want = malloc(size), *have = malloc(size);
    int status, same;
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, &status);
    if (t == NULL || want == NULL || have == NULL)
        return "allocate";
    pattern(want, size);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    do {
        memset(have, 0, size);
        status = (int)nrt_tensor_write(t, want, 0, size);
        if (status == 0)
            status = (int)nrt_tensor_read(t, have, 0, size);
        same = memcmp(have, want, size) == 0;
    } while (status == 0 && same && alarms < 100);
    setitimer(ITIMER_REAL, &never, NULL);
    nrt_tensor_free(&t);
    free(want);
    free(have);
    return status != 0 ? "refused" : same ? "same" : "other";
}

/* What a child finds that was forked from a running parent. */
static void forked(void)
{
    int out[2];
    if (pipe(out) != 0)
        exit(1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        uint32_t visible = 0;
        int status, allocate, init;
        int count = (int)nrt_get_visible_vnc_count(&visible);
        nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, 4096, &allocate);
        nrt_tensor_free(&kept);
        nrt_close();
        init = (int)nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
        status = dprintf(out[1], "visible %d %u allocate %d%s init %d", count, visible, allocate, t != NULL ? "!" : "",
                         init);
        /* exit, not _exit: what the library does at exit must not disturb the parent either. */
        exit(status < 0);
    }
    char text[200] = "";
    int status = 0;
    close(out[1]);
    ssize_t length = read(out[0], text, sizeof text - 1);
    close(out[0]);
    waitpid(child, &status, 0);
    printf("= %s exit %d\n", length > 0 ? text : "nothing", status);
}

static void *init_beside(void *status)
{
    *(int *)status = (int)nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
    return NULL;
}

/* A child that goes on until it is killed, as it is or as a program of its own. The answer is its
 * process id. */
static void beside_us(int as_program)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        /* The test must see the end of its parent's output. */
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        if (as_program)
            execlp("sleep", "sleep", "infinity", (char *)NULL);
        for (;;)
            pause();
    }
    printf("= %d\n", (int)child);
}

/* An end, or a new beginning, without nrt_close. */
static void leave(const char *how)
{
    fflush(NULL);
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "exec") == 0)
        execl("/proc/self/exe", "client", "again", (char *)NULL);
    printf("= ?\n");
}

/* An init at the moment the holder of this lock lets everybody go. */
static int init_at(const char *gate)
{
    int fd = open(gate, O_RDONLY);
    printf("= at the gate\n");
    if (fd < 0 || flock(fd, LOCK_SH) != 0)
        return -1;
    close(fd);
    return (int)nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
}

int main(int argc, char **argv)
{
    (void)argv;
    static pthread_t beside;
    static int beside_status;
    static char line[200], text[200], value[200];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1)
        printf("= again\n");
    while (fgets(line, sizeof line, stdin) != NULL) {
        char word[32] = "";
        long a = 0, b = 0, c = 0;
        sscanf(line, "%31s %ld %ld %ld", word, &a, &b, &c);
        if (strcmp(word, "init") == 0) {
            printf("= %d\n", (int)nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9.1", "1.2.3"));
        } else if (sscanf(line, "gate %199s", text) == 1) {
            printf("= %d\n", init_at(text));
        } else if (sscanf(line, "set %199s %199s", text, value) == 2) {
            printf("= %d\n", setenv(text, value, 1));
        } else if (sscanf(line, "unset %199s", text) == 1) {
            printf("= %d\n", unsetenv(text));
        } else if (strcmp(word, "begin") == 0) {
            /* An init in another thread, which `finish` waits for. */
            printf("= %d\n", pthread_create(&beside, NULL, init_beside, &beside_status));
        } else if (strcmp(word, "finish") == 0) {
            pthread_join(beside, NULL);
            printf("= %d\n", beside_status);
        } else if (strcmp(word, "close") == 0) {
            nrt_close();
            printf("= closed\n");
        } else if (strcmp(word, "counts") == 0) {
            uint32_t total = 0, visible = 0;
            int one = nrt_get_total_vnc_count(&total), two = nrt_get_visible_vnc_count(&visible);
            printf("= %d %u %d %u\n", one, total, two, visible);
        } else if (strcmp(word, "info") == 0) {
            nrt_instance_info_t info;
            memset(&info, 0, sizeof info);
            int status = nrt_get_instance_info(&info, sizeof info);
            printf("= %d %d %d %s %s\n", status, info.family, info.size, info.arch_name, info.device_revision);
        } else if (strcmp(word, "trip") == 0) {
            printf("= %s\n", round_trip((int)a, (size_t)b, (int)c));
        } else if (strcmp(word, "storm") == 0) {
            printf("= %s\n", storm((int)a, (size_t)b));
        } else if (strcmp(word, "keep") == 0) {
            int status;
            unsigned char *bytes = malloc((size_t)b);
            kept = tensor(NRT_TENSOR_PLACEMENT_DEVICE, (int)a, kept_size = (size_t)b, &status);
            pattern(bytes, kept_size);
            printf("= %d %d\n", status, kept == NULL ? -1 : (int)nrt_tensor_write(kept, bytes, 0, kept_size));
            free(bytes);
        } else if (strcmp(word, "check") == 0) {
            /* Cleared: a refused read leaves it as it was, and old bytes of the heap may be the right ones. */
            unsigned char *want = malloc(kept_size), *have = calloc(kept_size, 1);
            pattern(want, kept_size);
            int status = nrt_tensor_read(kept, have, 0, kept_size);
            printf("= %d %s\n", status, memcmp(want, have, kept_size) == 0 ? "same" : "other");
            free(want);
            free(have);
        } else if (strcmp(word, "drop") == 0) {
            nrt_tensor_free(&kept);
            printf("= %s\n", kept == NULL ? "gone" : "there");
        } else if (strcmp(word, "fill") == 0) {
            /* Tensors of `b` bytes until one is refused: how many, and the refusal. */
            int status, count = 0;
            nrt_tensor_t *all[4096];
            while (count < 4096 && (all[count] = tensor(NRT_TENSOR_PLACEMENT_DEVICE, (int)a, (size_t)b, &status)) != NULL)
                count++;
            int n = count;
            while (count > 0)
                nrt_tensor_free(&all[--count]);
            nrt_tensor_t *again = tensor(NRT_TENSOR_PLACEMENT_DEVICE, (int)a, (size_t)b, &count);
            nrt_tensor_free(&again);
            printf("= %d refused %d again %d\n", n, status, count);
        } else if (strcmp(word, "peek") == 0) {
            /* First and last word of a fresh tensor. */
            int status;
            uint32_t first = 0, last = 0;
            nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, (int)a, (size_t)b, &status);
            nrt_tensor_read(t, &first, 0, sizeof first);
            nrt_tensor_read(t, &last, (size_t)b - sizeof last, sizeof last);
            nrt_tensor_free(&t);
            printf("= %d %x %x\n", status, first, last);
        } else if (strcmp(word, "stats") == 0) {
            nrt_vnc_memory_stats_t stats;
            size_t size = 0;
            int status = nrt_get_vnc_memory_stats((uint32_t)a, &stats, sizeof stats, &size);
            printf("= %d %zu %zu\n", status, stats.bytes_used, stats.bytes_limit);
        } else if (strcmp(word, "window") == 0) {
            void *address = NULL;
            size_t size = 0;
            int status = nrt_get_hbm_mmap_va((int)a, (int)b, &address, &size);
            printf("= %d %zu\n", status, size);
        } else if (strcmp(word, "dmabuf") == 0) {
            int fd = -1;
            printf("= %d\n", (int)nrt_get_dmabuf_fd((uint64_t)(uintptr_t)nrt_tensor_get_va(kept), 4096, &fd));
        } else if (sscanf(line, "leave %199s", text) == 1) {
            leave(text);
        } else if (strcmp(word, "child") == 0) {
            beside_us(0);
        } else if (strcmp(word, "program") == 0) {
            beside_us(1);
        } else if (strcmp(word, "fork") == 0) {
            forked();
        } else {
            printf("= ?\n");
        }
    }
    return 0;
}
