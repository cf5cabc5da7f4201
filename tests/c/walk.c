/* Long pseudo-random orders of init, close, use and fork, against a model of the states. The
 * numbers come from a fixed seed, so that a failure comes again. */
#include <pthread.h>

#include "check.h"
#include "nrt/nrt.h"
#include "nrt/opennrt.h"

enum { STEPS = 20000, FORK_DEPTH = 2, TENSORS = 4 };

static uint64_t seed = 0x2545f4914f6cdd1d;

static uint32_t pick(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % below;
}

/* The model: what this process may expect. */
static enum { START, UP, CHILD } state;
static int depth;
static int used;
static nrt_tensor_t *tensors[TENSORS];

static NRT_STATUS gate(void) { return state == UP ? NRT_SUCCESS : state == CHILD ? NRT_FAILURE : NRT_UNINITIALIZED; }

static void step_init(void)
{
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), state == CHILD ? NRT_FAILURE : NRT_SUCCESS);
    if (state == START) {
        state = UP;
        used = 1;
    }
}

static void step_close(void)
{
    nrt_close();
    if (state == UP)
        state = START;
}

static void step_count(void)
{
    uint32_t n = 0;
    EXPECT_EQ(nrt_get_visible_vnc_count(&n), NRT_SUCCESS);
    EXPECT_EQ(n, 2);
    EXPECT_EQ(nrt_get_total_vnc_count(&n), NRT_SUCCESS);
    EXPECT_EQ(n, 2);
}

static void step_records(void)
{
    const void *cfg, *gcfg;
    size_t cfg_len, gcfg_len;
    EXPECT_EQ(opennrt_config_raw(&cfg, &cfg_len, &gcfg, &gcfg_len), NRT_SUCCESS);
    EXPECT(cfg != NULL);
    EXPECT_EQ(cfg_len, 656);
    if (state != CHILD)
        EXPECT_EQ(gcfg != NULL, state == UP);
    EXPECT_EQ(gcfg_len, gcfg != NULL ? 296 : 0);
}

static void step_allocate(void)
{
    nrt_tensor_t **place = &tensors[pick(TENSORS)];
    nrt_tensor_free(place);
    EXPECT(*place == NULL);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, (int)pick(2), 64 + pick(4096), "t", place), gate());
    EXPECT_EQ(*place != NULL, state == UP);
}

/* A tensor outlives the run that made it, and a later run may use it. */
static void step_use(void)
{
    nrt_tensor_t *t = tensors[pick(TENSORS)];
    char byte = 7, back = 0;
    if (t == NULL)
        return;
    EXPECT(nrt_tensor_get_size(t) >= 64);
    EXPECT_EQ(nrt_tensor_write(t, &byte, 63, 1), gate());
    EXPECT_EQ(nrt_tensor_read(t, &back, 63, 1), gate());
    EXPECT_EQ(back, state == UP ? 7 : 0);
}

static void step_bogus(void)
{
    nrt_tensor_t *bogus = (nrt_tensor_t *)(uintptr_t)(pick(UINT32_MAX) | 1);
    char byte = 7;
    NRT_STATUS status = nrt_tensor_read(bogus, &byte, 0, 1);
    EXPECT_EQ(status, state == UP ? NRT_INVALID_HANDLE : gate());
    EXPECT_EQ(byte, 7);
}

static void *in_thread(void *step)
{
    (*(void (**)(void))step)();
    return NULL;
}

static void walk(int steps);

static void step_fork(void)
{
    int status = 0;
    if (depth == FORK_DEPTH || pick(20) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        depth++;
        if (used)
            state = CHILD;
        walk(100);
        _exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT_EQ(status, 0);
}

static void walk(int steps)
{
    static void (*const choices[])(void) = {step_init,     step_close, step_count, step_records,
                                            step_allocate, step_use,   step_bogus, step_fork};
    while (steps-- > 0) {
        void (*step)(void) = choices[pick(sizeof choices / sizeof choices[0])];
        if (step != step_fork && pick(16) == 0) {
            pthread_t thread;
            EXPECT_EQ(pthread_create(&thread, NULL, in_thread, &step), 0);
            pthread_join(thread, NULL);
        } else {
            step();
        }
    }
}

static void random_orders(void)
{
    fake("trn1.2xlarge");
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    walk(STEPS);
    nrt_close();
}

int main(void)
{
    RUN(random_orders, QUIET);
    return check_done();
}
