/* Any call from any thread at any time. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

#include "all_headers.inc"

enum { THREADS = 8, ROUNDS = 300 };

static nrt_instance_info_t answers[THREADS];
static pthread_barrier_t start;

static void *first_identity(void *slot)
{
    pthread_barrier_wait(&start);
    EXPECT_EQ(nrt_get_instance_info(slot, sizeof(nrt_instance_info_t)), NRT_SUCCESS);
    return NULL;
}

static void in_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, body, &answers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* A071, A089, A093: many first callers, one answer. */
static void identity_race_has_one_answer(void)
{
    fake("trn2.48xlarge");
    in_threads(first_identity);
    for (int i = 1; i < THREADS; i++)
        EXPECT(memcmp(&answers[0], &answers[i], sizeof answers[0]) == 0);
}

static void *everything(void *unused)
{
    char buffer[64] = "x";
    (void)unused;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        nrt_tensor_t *tensor = NULL;
        nrt_tensor_set_t *set = NULL;
        uint32_t n = 0;
        NRT_STATUS status;
        nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
        status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, i % 2, 64, "t", &tensor);
        EXPECT(status == NRT_SUCCESS || status == NRT_UNINITIALIZED || status == NRT_CLOSED);
        if (status == NRT_SUCCESS) {
            status = nrt_tensor_write(tensor, buffer, 0, sizeof buffer);
            EXPECT(status == NRT_SUCCESS || status == NRT_UNINITIALIZED || status == NRT_CLOSED);
            EXPECT_EQ(nrt_tensor_get_size(tensor), 64);
        }
        if (nrt_allocate_tensor_set(&set) == NRT_SUCCESS) {
            nrt_add_tensor_to_tensor_set(set, "t", tensor);
            nrt_destroy_tensor_set(&set);
        }
        EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_SUCCESS);
        EXPECT_EQ(n, 2);
        EXPECT_EQ(nrt_get_visible_vnc_count(&n), NRT_SUCCESS);
        EXPECT_EQ(n, 2);
        nrt_close();
        nrt_tensor_free(&tensor);
        EXPECT(tensor == NULL);
    }
    return NULL;
}

static void init_close_and_use_race(void)
{
    fake("trn1.2xlarge");
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    in_threads(everything);
}

/* Every gated call while another thread closes and starts over: a call sees the runtime up, and
 * answers as it did when nobody raced, or it sees 13 or 14. */
typedef unsigned long (*any_function)(long, long, long, long, long, long, long, long, long);

static void (*const gated[])(void) = {
#define SYMBOL(name, node) (void (*)(void))name,
#include "symbols.inc"
#undef SYMBOL
};
enum { GATED = sizeof gated / sizeof gated[0] };

static uint32_t when_up[GATED];
static atomic_int closing;

static uint32_t call_with_zeros(size_t i) { return (uint32_t)((any_function)gated[i])(0, 0, 0, 0, 0, 0, 0, 0, 0); }

static void *close_and_start_over(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        nrt_close();
        EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    }
    atomic_store(&closing, 0);
    return NULL;
}

static void *call_everything(void *slot)
{
    pthread_barrier_wait(&start);
    if (slot == &answers[0])
        return close_and_start_over();
    do {
        for (size_t i = 0; i < GATED; i++) {
            uint32_t status = call_with_zeros(i);
            EXPECT(status == when_up[i] || status == NRT_UNINITIALIZED || status == NRT_CLOSED);
        }
    } while (atomic_load(&closing));
    return NULL;
}

static void gated_calls_race_with_close(void)
{
    fake("trn1.2xlarge");
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    EXPECT(GATED > 60);
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    for (size_t i = 0; i < GATED; i++) {
        when_up[i] = call_with_zeros(i);
        EXPECT(when_up[i] != NRT_UNINITIALIZED && when_up[i] != NRT_CLOSED);
    }
    atomic_store(&closing, 1);
    in_threads(call_everything);
    nrt_close();
}

int main(void)
{
    RUN(identity_race_has_one_answer, QUIET);
    RUN(init_close_and_use_race, QUIET);
    RUN(gated_calls_race_with_close, QUIET);
    return check_done();
}
