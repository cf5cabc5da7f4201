/* The explicit asynchronous calls as a program uses them, and the two calls of the implicit mode. */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "check.h"
#include "nrt/nrt.h"
#include "nrt/nrt_async.h"
#include "nrt/nrt_experimental.h"

enum { SIZE = 1 << 16, LARGE = 8 << 20 };

/* What is in a place before a call, and still there when it must not be written. */
#define UNWRITTEN ((NRT_STATUS)4711)

static unsigned char data[SIZE], back[SIZE];

static void start(const char *instance)
{
    fake(instance);
    for (int i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 31 + i / 251);
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
}

static nrt_tensor_t *tensor(nrt_tensor_placement_t placement, int vnc, size_t size)
{
    nrt_tensor_t *t = NULL;
    EXPECT_EQ(nrt_tensor_allocate(placement, vnc, size, "t", &t), NRT_SUCCESS);
    return t;
}

static void completed(nrta_seq_t seq)
{
    bool done = false;
    while (!done) {
        EXPECT_EQ(nrta_is_completed(seq, &done), NRT_SUCCESS);
        sched_yield();
    }
}

static void bytes_go_in_copied_and_out(void)
{
    NRT_STATUS ret[3] = {UNWRITTEN, UNWRITTEN, UNWRITTEN};
    nrta_seq_t seq[3] = {0, 0, 0}, last = 1;
    start("trn1.32xlarge");
    nrt_tensor_t *a = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 3, SIZE), *b = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 3, SIZE);
    EXPECT_EQ(nrta_get_sequence(3, NRTA_XU_TENSOR_OP, 1, &last), NRT_SUCCESS);
    EXPECT_EQ(last, 0x0310000000000000);
    /* One queue: each sees what the one before it did. */
    EXPECT_EQ(nrta_tensor_write(a, data, 100, SIZE - 100, 3, 1, &ret[0], &seq[0]), NRT_SUCCESS);
    EXPECT_EQ(nrta_tensor_copy(a, 100, b, 0, SIZE - 100, 3, 1, &ret[1], &seq[1]), NRT_SUCCESS);
    EXPECT_EQ(nrta_tensor_read(back, b, 0, SIZE - 100, 3, 1, &ret[2], &seq[2]), NRT_SUCCESS);
    completed(seq[2]);
    for (int i = 0; i < 3; i++) {
        bool done = false;
        EXPECT_EQ(ret[i], NRT_SUCCESS);
        EXPECT_EQ(seq[i], 0x0310000000000001 + i);
        EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(seq[i]), i + 1);
        EXPECT_EQ(nrta_is_completed(seq[i], &done), NRT_SUCCESS);
        EXPECT(done);
    }
    EXPECT(memcmp(back, data, SIZE - 100) == 0);
    EXPECT_EQ(nrta_get_sequence(3, NRTA_XU_TENSOR_OP, 1, &last), NRT_SUCCESS);
    EXPECT_EQ(last, seq[2]);
    /* The other queue, and the other units, count for themselves. */
    EXPECT_EQ(nrta_tensor_write(a, data, 0, 1, 3, 0, &ret[0], &seq[0]), NRT_SUCCESS);
    EXPECT_EQ(seq[0], 0x0300000000000001);
    EXPECT_EQ(nrta_get_sequence(3, NRTA_XU_COMPUTE, 0, &last), NRT_SUCCESS);
    EXPECT_EQ(last, 0x0301000000000000);
    EXPECT_EQ(nrta_get_sequence(3, NRTA_XU_COLLECTIVES, 2, &last), NRT_SUCCESS);
    EXPECT_EQ(last, 0x0322000000000000);
    completed(seq[0]);
    nrt_tensor_free(&a);
    nrt_tensor_free(&b);
    nrt_close();
}

/* What is refused, in the order of the checks: each row is wrong in one way more than the next one. */
static void refusals_come_in_order_and_change_nothing(void)
{
    static const struct {
        int null, queue, lnc, which;
        uint64_t offset, size;
        NRT_STATUS status;
    } rows[] = {
        {1, 2, 99, 1, SIZE, 1, NRT_INVALID},         {0, 2, 99, 1, SIZE, 1, NRT_INVALID},
        {0, -1, 99, 1, SIZE, 1, NRT_INVALID},        {0, 1, 99, 1, SIZE, 1, NRT_INVALID},
        {0, 1, -1, 1, SIZE, 1, NRT_INVALID},         {0, 1, INT_MIN, 1, SIZE, 1, NRT_INVALID},
        {0, 1, 0, 3, SIZE, 1, NRT_INVALID_HANDLE},   {0, 1, 0, 1, SIZE, 1, NRT_INVALID},
        {0, 1, 0, 2, SIZE, 1, NRT_INVALID},          {0, 1, 0, 0, SIZE, 1, NRT_INVALID},
        {0, 1, 0, 0, UINT64_MAX, 2, NRT_INVALID},    {0, 1, 0, 0, 0, UINT64_MAX, NRT_INVALID},
        {0, 1, 1, 0, 0, SIZE, NRT_INVALID},          {0, 1, 0, 0, 0, SIZE, NRT_SUCCESS},
    };
    start("trn1.32xlarge");
    nrt_tensor_t *tensors[4] = {
        tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE),
        tensor(NRT_TENSOR_PLACEMENT_VIRTUAL, 0, SIZE),
        tensor(NRT_TENSOR_PLACEMENT_HOST, 0, SIZE),
        (nrt_tensor_t *)data,
    };
    nrt_tensor_t *beside = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        NRT_STATUS ret[3] = {UNWRITTEN, UNWRITTEN, UNWRITTEN};
        nrta_seq_t seq[3] = {UNWRITTEN, UNWRITTEN, UNWRITTEN};
        nrt_tensor_t *t = tensors[rows[i].which];
        int lnc = rows[i].lnc, queue = rows[i].queue;
        uint64_t offset = rows[i].offset, size = rows[i].size;
        nrta_seq_t *place = rows[i].null ? NULL : seq;
        EXPECT_EQ(nrta_tensor_write(t, data, offset, size, lnc, queue, &ret[0], place), rows[i].status);
        EXPECT_EQ(nrta_tensor_read(back, t, offset, size, lnc, queue, &ret[1], place ? place + 1 : NULL), rows[i].status);
        EXPECT_EQ(nrta_tensor_copy(t, offset, beside, 0, size, lnc, queue, &ret[2], place ? place + 2 : NULL),
                  rows[i].status);
        for (int n = 0; n < 3; n++) {
            if (rows[i].status != NRT_SUCCESS) {
                EXPECT_EQ(seq[n], UNWRITTEN);
                EXPECT_EQ(ret[n], UNWRITTEN);
            } else {
                /* Nothing before it has used up a number. */
                EXPECT_EQ(seq[n], 0x0010000000000001 + n);
                completed(seq[n]);
                EXPECT_EQ(ret[n], NRT_SUCCESS);
            }
        }
    }
    nrt_close();
}

static NRT_STATUS ret_of_null = UNWRITTEN;

static void each_pointer_may_be_missing(void)
{
    nrta_seq_t seq = UNWRITTEN;
    bool done = true;
    start("trn1.2xlarge");
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    EXPECT_EQ(nrta_tensor_read(NULL, t, 0, 1, 0, 0, &ret_of_null, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_tensor_read(back, NULL, 0, 1, 0, 0, &ret_of_null, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_tensor_read(back, t, 0, 1, 0, 0, NULL, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_tensor_write(t, data, 0, 1, 0, 0, &ret_of_null, NULL), NRT_INVALID);
    EXPECT_EQ(nrta_tensor_copy(NULL, 0, t, 0, 1, 0, 0, &ret_of_null, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_tensor_copy(t, 0, NULL, 0, 1, 0, 0, &ret_of_null, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_is_completed(1, NULL), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 0, NULL), NRT_INVALID);
    EXPECT(seq == UNWRITTEN && ret_of_null == UNWRITTEN && done);
    nrt_close();
}

static void memory_of_other_places_is_refused(void)
{
    NRT_STATUS ret = UNWRITTEN;
    nrta_seq_t seq = UNWRITTEN;
    start("trn2.48xlarge");
    nrt_tensor_t *near = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE), *far = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 1, SIZE);
    nrt_tensor_t *other = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 4, SIZE), *empty = NULL;
    EXPECT_EQ(nrt_tensor_allocate_empty("e", &empty), NRT_SUCCESS);
    EXPECT_EQ(nrta_tensor_copy(near, 0, far, 0, 1, 0, 0, &ret, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_tensor_write(far, data, 0, 1, 0, 0, &ret, &seq), NRT_INVALID);
    /* The same HBM of another device. */
    EXPECT_EQ(nrta_tensor_write(other, data, 0, 1, 0, 0, &ret, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_tensor_write(empty, data, 0, 1, 0, 0, &ret, &seq), NRT_INVALID);
    EXPECT(seq == UNWRITTEN && ret == UNWRITTEN);
    nrt_close();
}

static void no_such_sequence(void)
{
    static const nrta_seq_t never[] = {
        0,          3,           0x0010000000000001, 0x0020000000000001, 0x0001000000000001, 0x0003000000000001,
        0xff00000000000001, 0x0100000000000001, UINT64_MAX,
    };
    NRT_STATUS ret = UNWRITTEN;
    nrta_seq_t seq = 0;
    bool done = false;
    start("trn1.32xlarge");
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    EXPECT_EQ(nrta_is_completed(1, &done), NRT_INVALID);
    for (int n = 1; n <= 2; n++)
        EXPECT_EQ(nrta_tensor_write(t, data, 0, SIZE, 0, 0, &ret, &seq), NRT_SUCCESS);
    completed(seq);
    done = true;
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        EXPECT_EQ(nrta_is_completed(never[i], &done), NRT_INVALID);
        EXPECT(done);
    }
    seq = UNWRITTEN;
    EXPECT_EQ(nrta_get_sequence(32, NRTA_XU_TENSOR_OP, 0, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(UINT32_MAX, NRTA_XU_TENSOR_OP, 0, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 2, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COMPUTE, 1, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COLLECTIVES, 3, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COLLECTIVES, -1, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TYPE_NUM, 0, &seq), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, (nrta_xu_t)-1, 0, &seq), NRT_INVALID);
    EXPECT_EQ(seq, UNWRITTEN);
    nrt_close();
}

/* The calls that wait see queued work as work in flight. */
static void waiting_calls_wait_for_queued_work(void)
{
    static unsigned char in[LARGE], out[LARGE];
    /* One for each: nothing says which is written first. */
    NRT_STATUS ret[3] = {UNWRITTEN, UNWRITTEN, UNWRITTEN};
    nrta_seq_t seq = 0;
    start("trn1.2xlarge");
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, LARGE);
    memset(in, 'a', LARGE);
    EXPECT_EQ(nrta_tensor_write(t, in, 0, LARGE, 0, 0, &ret[0], &seq), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_read(t, back, LARGE - SIZE, SIZE), NRT_SUCCESS);
    EXPECT(memcmp(back, in, SIZE) == 0);
    EXPECT_EQ(nrta_tensor_read(out, t, 0, LARGE, 0, 1, &ret[1], &seq), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_memset(t, 0, 'b', LARGE), NRT_SUCCESS);
    EXPECT(memcmp(in, out, LARGE) == 0);
    /* A tensor may go before the work on it: its bytes stay until then. */
    EXPECT_EQ(nrta_tensor_read(out, t, 0, LARGE, 0, 1, &ret[2], &seq), NRT_SUCCESS);
    nrt_tensor_free(&t);
    completed(seq);
    EXPECT_EQ(ret[2], NRT_SUCCESS);
    EXPECT(out[0] == 'b' && out[LARGE - 1] == 'b');
    nrt_close();
}

enum { QUEUED = 300 };

/* Each write of a byte is seen by the read behind it, through both queues at once. */
static void order_within_each_queue(void)
{
    static unsigned char bytes[QUEUED], seen[2][QUEUED];
    static NRT_STATUS ret[2][QUEUED][2];
    nrta_seq_t seq[2] = {0, 0};
    start("inf2.xlarge");
    nrt_tensor_t *t[2] = {tensor(NRT_TENSOR_PLACEMENT_DEVICE, 1, SIZE), tensor(NRT_TENSOR_PLACEMENT_DEVICE, 1, SIZE)};
    for (int i = 0; i < QUEUED; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    memset(ret, 0xff, sizeof ret);
    for (int i = 0; i < QUEUED; i++)
        for (int q = 0; q < 2; q++) {
            EXPECT_EQ(nrta_tensor_write(t[q], &bytes[i], 5, 1, 1, q, &ret[q][i][0], &seq[q]), NRT_SUCCESS);
            EXPECT_EQ(nrta_tensor_read(&seen[q][i], t[q], 5, 1, 1, q, &ret[q][i][1], &seq[q]), NRT_SUCCESS);
            EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(seq[q]), 2 * i + 2);
        }
    completed(seq[0]);
    completed(seq[1]);
    for (int q = 0; q < 2; q++) {
        EXPECT(memcmp(seen[q], bytes, QUEUED) == 0);
        for (int i = 0; i < QUEUED; i++)
            EXPECT(ret[q][i][0] == NRT_SUCCESS && ret[q][i][1] == NRT_SUCCESS);
    }
    nrt_close();
}

#define UNKNOWN ULLONG_MAX

/* A number the system knows about a thread of this process. */
static unsigned long long about_thread(const char *thread, const char *format)
{
    char path[512], line[256];
    unsigned long long value = UNKNOWN;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *lines = fopen(path, "r");
    while (lines != NULL && value == UNKNOWN && fgets(line, sizeof line, lines) != NULL)
        sscanf(line, format, &value);
    if (lines != NULL)
        fclose(lines);
    return value;
}

/* The workers of queues, by their names: a tool that looks on may have threads of its own. Each is told to `look`. */
static int workers(void (*look)(const char *thread))
{
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry = readdir(threads); entry != NULL; entry = readdir(threads)) {
        if (about_thread(entry->d_name, "Name: nrt c%llu") == UNKNOWN)
            continue;
        count++;
        if (look != NULL)
            look(entry->d_name);
    }
    closedir(threads);
    return count;
}

/* The system may show a thread a moment longer than it is there. */
static void expect_no_workers(void)
{
    alarm(60);
    while (workers(NULL) > 0)
        sched_yield();
    alarm(0);
}

/* Close carries everything out, leaves no thread of its own, and the next cycle counts from 1 again. */
static void close_drains_and_init_starts_again(void)
{
    static NRT_STATUS ret[QUEUED];
    nrta_seq_t seq = 0;
    bool done = false;
    for (int cycle = 0; cycle < 2; cycle++) {
        start("trn1.2xlarge");
        EXPECT_EQ(nrta_is_completed(1, &done), NRT_INVALID);
        nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
        EXPECT_EQ(workers(NULL), 0);
        memset(ret, 0xff, sizeof ret);
        for (int i = 0; i < QUEUED; i++)
            EXPECT_EQ(nrta_tensor_write(t, data, 0, SIZE, 0, 0, &ret[i], &seq), NRT_SUCCESS);
        EXPECT_EQ(seq, QUEUED);
        /* By then it has its name. */
        completed(1);
        EXPECT_EQ(workers(NULL), 1);
        nrt_close();
        expect_no_workers();
        for (int i = 0; i < QUEUED; i++)
            EXPECT_EQ(ret[i], NRT_SUCCESS);
        EXPECT_EQ(nrta_tensor_write(t, data, 0, SIZE, 0, 0, &ret[0], &seq), NRT_UNINITIALIZED);
        EXPECT_EQ(nrta_is_completed(seq, &done), NRT_UNINITIALIZED);
        EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 0, &seq), NRT_UNINITIALIZED);
        EXPECT_EQ(nrt_async_drain_queued_execs(0), NRT_UNINITIALIZED);
        nrt_tensor_free(&t);
    }
}

static void expect_only_own_faults(const char *thread)
{
    unsigned long long blocked = about_thread(thread, "SigBlk: %llx");
    for (int number = 1; number < SIGSYS; number++) {
        int fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
                    number == SIGTRAP || number == SIGABRT;
        if (number != SIGKILL && number != SIGSTOP)
            EXPECT_EQ(blocked >> (number - 1) & 1, !fault);
    }
}

/* Signals of the program are for its own threads; faults of a worker are not hidden. */
static void workers_run_no_handlers_of_the_program(void)
{
    NRT_STATUS ret = UNWRITTEN;
    nrta_seq_t seq = 0;
    /* The system fills a part of each. */
    static sigset_t before, after;
    start("trn1.2xlarge");
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    EXPECT_EQ(nrta_tensor_write(t, data, 0, SIZE, 0, 0, &ret, &seq), NRT_SUCCESS);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    EXPECT(memcmp(&before, &after, sizeof before) == 0);
    completed(seq);
    EXPECT_EQ(workers(expect_only_own_faults), 1);
    nrt_close();
}

static nrt_tensor_t *shared;

/* Until the runtime is closed under it: whatever was accepted is carried out. */
static void *submit_until_closed(void *unused)
{
    static NRT_STATUS ret[500];
    nrta_seq_t seq = 0;
    int accepted = 0;
    bool done = false;
    NRT_STATUS status = NRT_SUCCESS;
    (void)unused;
    memset(ret, 0xff, sizeof ret);
    while (accepted < 500) {
        status = nrta_tensor_write(shared, data, 0, SIZE, 0, 0, &ret[accepted], &seq);
        if (status != NRT_SUCCESS)
            break;
        accepted++;
    }
    EXPECT(accepted == 500 || status == NRT_CLOSED || status == NRT_UNINITIALIZED);
    /* While the close is at work, so may the last ones be. */
    do
        status = nrta_is_completed(seq, &done);
    while (status == NRT_CLOSED || (status == NRT_SUCCESS && !done));
    for (int i = 0; i < accepted; i++)
        EXPECT_EQ(ret[i], NRT_SUCCESS);
    for (int i = accepted; i < 500; i++)
        EXPECT(ret[i] == (NRT_STATUS)-1);
    return NULL;
}

static void close_meets_submissions(void)
{
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        nrta_seq_t last = 0;
        start("trn1.2xlarge");
        shared = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
        EXPECT_EQ(pthread_create(&thread, NULL, submit_until_closed, NULL), 0);
        while (last < (nrta_seq_t)round)
            EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 0, &last), NRT_SUCCESS);
        nrt_close();
        pthread_join(thread, NULL);
        expect_no_workers();
        nrt_tensor_free(&shared);
    }
}

/* A child has none of the workers; it is refused, ends, and does not disturb the parent. */
static void forked_children_are_refused(void)
{
    static NRT_STATUS ret[QUEUED];
    nrta_seq_t seq = 0, of_child = UNWRITTEN;
    bool done = false;
    int status = -1;
    start("trn1.2xlarge");
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    memset(ret, 0xff, sizeof ret);
    for (int i = 0; i < QUEUED; i++) {
        EXPECT_EQ(nrta_tensor_write(t, data, 0, SIZE, 0, i % 2, &ret[i], &seq), NRT_SUCCESS);
        if (i % 100 != 50)
            continue;
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            EXPECT_EQ(nrta_tensor_write(t, data, 0, SIZE, 0, 0, &ret[0], &of_child), NRT_FAILURE);
            EXPECT_EQ(nrta_tensor_read(back, t, 0, SIZE, 0, 0, &ret[0], &of_child), NRT_FAILURE);
            EXPECT_EQ(nrta_is_completed(seq, &done), NRT_FAILURE);
            EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 0, &of_child), NRT_FAILURE);
            EXPECT_EQ(nrt_async_drain_queued_execs(0), NRT_FAILURE);
            EXPECT_EQ(nrt_register_async_exec_callback(NULL, NULL), NRT_SUCCESS);
            EXPECT_EQ(of_child, UNWRITTEN);
            nrt_tensor_free(&t);
            nrt_close();
            exit(0);
        }
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    nrt_close();
    for (int i = 0; i < QUEUED; i++)
        EXPECT_EQ(ret[i], NRT_SUCCESS);
}

static void no_callback(void *params, uint32_t model, uint32_t vnc, uint64_t job, NRT_STATUS status)
{
    (void)params, (void)model, (void)vnc, (void)job, (void)status;
    _exit(98);
}

static void implicit_mode_excludes_the_explicit_calls(void)
{
    NRT_STATUS ret = UNWRITTEN;
    nrta_seq_t seq = UNWRITTEN;
    bool done = true;
    EXPECT_EQ(nrt_register_async_exec_callback(no_callback, &ret), NRT_SUCCESS);
    setenv("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "4", 1);
    start("trn1.2xlarge");
    EXPECT_EQ(nrt_register_async_exec_callback(no_callback, NULL), NRT_SUCCESS);
    nrt_tensor_t *t = tensor(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE);
    /* Said before anything about NULL or queues. */
    EXPECT_EQ(nrta_tensor_write(NULL, NULL, 0, SIZE, -1, 77, NULL, NULL), NRT_FAILURE);
    EXPECT_EQ(nrta_tensor_read(back, t, 0, SIZE, 0, 0, &ret, &seq), NRT_FAILURE);
    EXPECT_EQ(nrta_tensor_copy(t, 0, t, 0, SIZE, 0, 0, &ret, &seq), NRT_FAILURE);
    EXPECT(ret == UNWRITTEN && seq == UNWRITTEN);
    EXPECT_EQ(nrta_is_completed(1, &done), NRT_INVALID);
    EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_OP, 0, &seq), NRT_SUCCESS);
    EXPECT_EQ(seq, 0);
    EXPECT_EQ(nrt_async_drain_queued_execs(1), NRT_SUCCESS);
    EXPECT_EQ(nrt_async_drain_queued_execs(2), NRT_INVALID);
    EXPECT_EQ(nrt_async_drain_queued_execs(-1), NRT_INVALID);
    nrt_close();
}

/* `async no-fork` leaves out what tools that look on cannot stand. */
int main(int argc, char **argv)
{
    RUN(bytes_go_in_copied_and_out, QUIET);
    RUN(refusals_come_in_order_and_change_nothing,
        PRINTS("req_sequence is NULL", "Invalid queue parameter for TENSOR_OP XU. XU only supports 2 queues. (queue=2)",
               "XU only supports 2 queues. (queue=-1)", "Failed to find logical core (lnc_idx=99)",
               "Failed to find logical core (lnc_idx=4294967295)", "Failed to find logical core (lnc_idx=2147483648)",
               "is no tensor of this process", "Async APIs only supports device ",
               "Cannot write 1 bytes at offset 65536 of tensor t: it has 65536 bytes",
               "Tensor t allocated on HBM 0 was passed to a model loaded on lnc 1."));
    RUN(each_pointer_may_be_missing,
        PRINTS(" buf is NULL\n", " tensor is NULL\n", " exec_ret is NULL\n", " req_sequence is NULL\n", " src is NULL\n",
               " dst is NULL\n", " is_completed is NULL\n", " seq is NULL\n"));
    RUN(memory_of_other_places_is_refused,
        PRINTS("Tensors must be allocated on same HBM (SRC: 0) (DST: 1)",
               "Tensor t allocated on HBM 1 was passed to a model loaded on lnc 0.",
               "Tensor t allocated on HBM 0 was passed to a model loaded on lnc 0.", "Async APIs only supports device "));
    RUN(no_such_sequence,
        PRINTS("is no sequence", "Failed to find logical core (lnc_idx=32)",
               "Invalid queue parameter for COMPUTE XU. XU only supports 1 queues. (queue=1)",
               "Invalid queue parameter for COLLECTIVES XU. XU only supports 3 queues. (queue=3)", "There is no XU 3"));
    RUN(waiting_calls_wait_for_queued_work, QUIET);
    RUN(order_within_each_queue, QUIET);
    RUN(close_drains_and_init_starts_again, PRINTS("NRT uninitialized"));
    RUN(workers_run_no_handlers_of_the_program, QUIET);
    RUN(close_meets_submissions, PRINTS("!internal error"));
    if (argc < 2 || strcmp(argv[1], "no-fork") != 0)
        RUN(forked_children_are_refused, PRINTS("Incompatible runtime state: NRT_STATE_CHILD"));
    RUN(implicit_mode_excludes_the_explicit_calls,
        PRINTS("Explicit async API cannot be used in implicit async mode (where "
               "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS is set). \n",
               "Failed to find logical core (lnc_idx=2)", "!is NULL"));
    return check_done();
}
