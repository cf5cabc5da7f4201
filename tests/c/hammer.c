/* Eight threads use the same tensors and sets: `hammer` does a fixed amount of work, `hammer N` goes on for N seconds. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"
#include "nrt/nrt.h"
#include "nrt/nrt_async.h"

enum { THREADS = 8, ROUNDS = 400, SLOTS = 16, SIZE = 256 };

static int seconds;
static time_t end;
static pthread_barrier_t start;

/* Tensors of all threads. Whoever replaces one frees the old one, so others may come with a handle that is stale, or
 * by then that of a newer slot's tensor: every tensor that is ever in a slot takes the same calls. */
static _Atomic(nrt_tensor_t *) slots[SLOTS];
static nrt_tensor_set_t *shared_set;

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static nrt_tensor_t *make(nrt_tensor_placement_t placement, int vnc)
{
    nrt_tensor_t *t = NULL;
    EXPECT_EQ(nrt_tensor_allocate(placement, vnc, SIZE, "hammered", &t), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_memset(t, 0, 0, SIZE), NRT_SUCCESS);
    return t;
}

static int used_or_stale(NRT_STATUS status)
{
    EXPECT(status == NRT_SUCCESS || status == NRT_INVALID_HANDLE);
    return status == NRT_SUCCESS;
}

/* Every write of a shared tensor is of one value, so a read that waited its turn sees one value. */
static void expect_one_value(const unsigned char *bytes)
{
    for (int i = 1; i < SIZE; i++)
        EXPECT_EQ(bytes[i], bytes[0]);
}

static void shared_bytes(uint32_t *random)
{
    unsigned char bytes[SIZE];
    nrt_tensor_t *t = atomic_load(&slots[next(random) % SLOTS]), *other = atomic_load(&slots[next(random) % SLOTS]);
    nrt_tensor_batch_op_t whole = {0, SIZE, bytes};
    nrt_tensor_batch_t batch = {t, &whole, 1};

    memset(bytes, (int)next(random), sizeof bytes);
    switch (next(random) % 6) {
    case 0:
        used_or_stale(nrt_tensor_write(t, bytes, 0, SIZE));
        break;
    case 1:
        used_or_stale(nrt_tensor_memset(t, 0, (int)next(random), SIZE));
        break;
    case 2:
        used_or_stale(nrt_tensor_write_batch(&batch, 1, false));
        break;
    case 3:
        used_or_stale(nrt_tensor_copy(t, 0, other, 0, SIZE));
        break;
    case 4:
        if (used_or_stale(nrt_tensor_read_batch(&batch, 1, false)))
            expect_one_value(bytes);
        break;
    default:
        if (used_or_stale(nrt_tensor_read(t, bytes, 0, SIZE)))
            expect_one_value(bytes);
    }
}

/* The memory of a slot goes with its last view: a slice of a tensor that was freed meanwhile works on. */
static void replace_and_slice(uint32_t *random)
{
    unsigned char bytes[SIZE];
    nrt_tensor_t *slice = NULL, *old;
    int slot = (int)(next(random) % SLOTS);

    if (used_or_stale(nrt_tensor_allocate_slice(atomic_load(&slots[slot]), 0, SIZE, "slice", &slice))) {
        old = atomic_exchange(&slots[slot], make(NRT_TENSOR_PLACEMENT_DEVICE, 0));
        nrt_tensor_free(&old);
        EXPECT_EQ(nrt_tensor_read(slice, bytes, 0, SIZE), NRT_SUCCESS);
        expect_one_value(bytes);
        nrt_tensor_free(&slice);
    }
}

static void sets(uint32_t *random)
{
    static const char *const names[] = {"a", "b", "c"};
    const char *name = names[next(random) % 3];
    nrt_tensor_t *found = NULL;
    nrt_tensor_set_t *own = NULL;
    NRT_STATUS status;

    used_or_stale(nrt_add_tensor_to_tensor_set(shared_set, name, atomic_load(&slots[next(random) % SLOTS])));
    status = nrt_get_tensor_from_tensor_set(shared_set, name, &found);
    EXPECT(status == NRT_SUCCESS || status == NRT_INVALID_HANDLE);
    EXPECT_EQ(nrt_allocate_tensor_set(&own), NRT_SUCCESS);
    used_or_stale(nrt_add_tensor_to_tensor_set(own, name, atomic_load(&slots[next(random) % SLOTS])));
    nrt_destroy_tensor_set(&own);
}

/* What only this thread uses keeps what it wrote, whatever the others do. */
static void own_bytes(uint32_t *random, nrt_tensor_t *a, nrt_tensor_t *b)
{
    unsigned char in[SIZE], out[SIZE];
    size_t size = 1 + next(random) % SIZE, at = next(random) % (SIZE - size + 1), to = next(random) % (SIZE - size + 1);
    nrt_tensor_batch_op_t ops[] = {{at, size / 2, in}, {at + size / 2, size - size / 2, in + size / 2}};
    nrt_tensor_batch_t batch = {a, ops, 2};

    for (size_t i = 0; i < size; i++)
        in[i] = (unsigned char)next(random);
    if (next(random) % 2)
        EXPECT_EQ(nrt_tensor_write(a, in, at, size), NRT_SUCCESS);
    else
        EXPECT_EQ(nrt_tensor_write_batch(&batch, 1, true), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_copy(a, at, b, to, size), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_read(b, out, to, size), NRT_SUCCESS);
    EXPECT(memcmp(in, out, size) == 0);
}

/* Four threads share a queue; each finds its own work done in order. The last sequence tells of all three. */
static void queued_bytes(uint32_t *random, int queue, nrt_tensor_t *a, nrt_tensor_t *c)
{
    unsigned char in[SIZE], out[SIZE];
    NRT_STATUS ret[3] = {NRT_FAILURE, NRT_FAILURE, NRT_FAILURE};
    nrta_seq_t seq[3], last;
    size_t size = 1 + next(random) % SIZE, at = next(random) % (SIZE - size + 1);
    bool done = false;

    for (size_t i = 0; i < size; i++)
        in[i] = (unsigned char)next(random);
    EXPECT_EQ(nrta_tensor_write(a, in, at, size, 1, queue, &ret[0], &seq[0]), NRT_SUCCESS);
    EXPECT_EQ(nrta_tensor_copy(a, at, c, 0, size, 1, queue, &ret[1], &seq[1]), NRT_SUCCESS);
    EXPECT_EQ(nrta_tensor_read(out, c, 0, size, 1, queue, &ret[2], &seq[2]), NRT_SUCCESS);
    EXPECT(seq[0] < seq[1] && seq[1] < seq[2]);
    for (; !done; sched_yield())
        EXPECT_EQ(nrta_is_completed(seq[2], &done), NRT_SUCCESS);
    EXPECT(ret[0] == NRT_SUCCESS && ret[1] == NRT_SUCCESS && ret[2] == NRT_SUCCESS);
    EXPECT(memcmp(in, out, size) == 0);
    EXPECT_EQ(nrta_get_sequence(1, NRTA_XU_TENSOR_OP, queue, &last), NRT_SUCCESS);
    EXPECT(last >= seq[2]);
}

static void questions(uint32_t *random)
{
    nrt_tensor_t *t = atomic_load(&slots[next(random) % SLOTS]);
    nrt_tensor_device_allocation_info_t place;
    nrt_vnc_memory_stats_t stats;
    NRT_STATUS status;
    size_t size = nrt_tensor_get_size(t);

    EXPECT(size == SIZE || size == 0);
    nrt_tensor_get_va(t);
    used_or_stale(nrt_tensor_get_device_allocation_info(t, &place));
    EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, NULL), NRT_SUCCESS);
    EXPECT(stats.bytes_used <= stats.bytes_limit);
    status = nrt_tensor_check_output_completion(t, 0, 1);
    EXPECT(status == NRT_TIMEOUT || status == NRT_INVALID_HANDLE);
    used_or_stale(nrt_tensor_reset_output_completion(t));
}

static void *hammer(void *number)
{
    uint32_t random = 0x9e3779b9u * (1 + (uint32_t)(uintptr_t)number);
    nrt_tensor_t *a = make(NRT_TENSOR_PLACEMENT_DEVICE, 1), *b = make(NRT_TENSOR_PLACEMENT_VIRTUAL, -1);
    nrt_tensor_t *c = make(NRT_TENSOR_PLACEMENT_DEVICE, 1);

    /* Handles of tensors that are never freed were made before any was: no stale one is the same. */
    pthread_barrier_wait(&start);
    for (int round = 0; seconds ? time(NULL) < end : round < ROUNDS; round++) {
        shared_bytes(&random);
        own_bytes(&random, a, b);
        if (round % 4 == 0)
            replace_and_slice(&random);
        if (round % 4 == 1)
            sets(&random);
        if (round % 4 == 2)
            questions(&random);
        if (round % 4 == 3)
            queued_bytes(&random, (int)(uintptr_t)number % 2, a, c);
    }
    pthread_barrier_wait(&start);
    nrt_tensor_free(&a);
    nrt_tensor_free(&b);
    nrt_tensor_free(&c);
    return NULL;
}

static void eight_threads(void)
{
    pthread_t threads[THREADS];
    nrt_vnc_memory_stats_t stats;

    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    for (int i = 0; i < SLOTS; i++)
        atomic_store(&slots[i], make(NRT_TENSOR_PLACEMENT_DEVICE, 0));
    EXPECT_EQ(nrt_allocate_tensor_set(&shared_set), NRT_SUCCESS);
    pthread_barrier_init(&start, NULL, THREADS);
    end = time(NULL) + seconds;
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++) {
        nrt_tensor_t *t = atomic_load(&slots[i]);
        nrt_tensor_free(&t);
    }
    nrt_destroy_tensor_set(&shared_set);
    for (uint32_t vnc = 0; vnc < 2; vnc++) {
        EXPECT_EQ(nrt_get_vnc_memory_stats(vnc, &stats, sizeof stats, NULL), NRT_SUCCESS);
        EXPECT_EQ(stats.bytes_used, 0);
    }
    nrt_close();
    pthread_barrier_destroy(&start);
}

static void on_a_simulated_instance(void)
{
    fake("trn1.2xlarge");
    eight_threads();
}

int main(int argc, char **argv)
{
    seconds = argc > 1 ? atoi(argv[1]) : 0;
    /* On device files where the caller has named some, simulated else. */
    if (getenv("OPENNRT_DEV_DIR") != NULL)
        RUN(eight_threads, QUIET);
    else
        RUN(on_a_simulated_instance, QUIET);
    return check_done();
}
