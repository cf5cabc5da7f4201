/* What a forked child may and may not do (facts/runtime/lifecycle.md section 6, report B07). */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "nrt/nrt.h"
#include "nrt/nrt_profile.h"

static NRT_STATUS init(void) { return nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""); }

static uint32_t visible(void)
{
    uint32_t n = 0;
    EXPECT_EQ(nrt_get_visible_vnc_count(&n), NRT_SUCCESS);
    return n;
}

static void in_child(void (*body)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        /* Nothing takes that long: a child that hangs dies and fails the test. */
        alarm(60);
        body();
        _exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static nrt_tensor_t *parents;

static void child_of_a_running_parent(void)
{
    nrt_tensor_t *t = NULL;
    char buffer[4];
    EXPECT_EQ(visible(), 4);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &t), NRT_FAILURE);
    EXPECT_EQ(nrt_tensor_read(parents, buffer, 0, 4), NRT_FAILURE);
    EXPECT_EQ(nrt_tensor_get_size(parents), 64);
    EXPECT_EQ(init(), NRT_FAILURE);
    nrt_close();
    EXPECT_EQ(init(), NRT_FAILURE);
    EXPECT_EQ(visible(), 4);
}

/* A020, A057, B07: the child keeps the count and nothing else; the parent loses nothing. */
static void fork_while_running(void)
{
    char back[6];
    fake("trn2.48xlarge");
    setenv("NEURON_RT_VISIBLE_CORES", "0-3", 1);
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &parents), NRT_SUCCESS);
    in_child(child_of_a_running_parent);
    EXPECT_EQ(nrt_tensor_write(parents, "hello", 0, 6), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_read(parents, back, 0, 6), NRT_SUCCESS);
    EXPECT(strcmp(back, "hello") == 0);
    nrt_tensor_free(&parents);
    nrt_close();
}

static void may_init(void)
{
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT_EQ(visible(), 2);
    nrt_close();
}

static void may_not_init(void) { EXPECT_EQ(init(), NRT_FAILURE); }

static void fork_before_init(void)
{
    fake("trn1.2xlarge");
    EXPECT_EQ(visible(), 2);
    in_child(may_init);
    may_init();
}

static void fork_after_failed_init(void)
{
    fake("trn1.2xlarge");
    setenv("NEURON_RT_RESET_CORES", "maybe", 1);
    EXPECT_EQ(init(), NRT_INVALID);
    unsetenv("NEURON_RT_RESET_CORES");
    in_child(may_init);
    may_init();
}

static void fork_after_close(void)
{
    fake("trn1.2xlarge");
    may_init();
    in_child(may_not_init);
    may_init();
}

static atomic_int stop;

static void *init_and_close(void *unused)
{
    while (!atomic_load(&stop)) {
        nrt_inspect_config_t *options = NULL;
        if (init() == NRT_SUCCESS)
            nrt_close();
        nrt_inspect_config_allocate(&options);
        nrt_inspect_config_free(options);
    }
    return unused;
}

static void asks_everything(void)
{
    nrt_inspect_config_t *options = NULL;
    nrt_instance_info_t info;
    uint32_t n;
    nrt_get_total_vnc_count(&n);
    nrt_get_visible_vnc_count(&n);
    nrt_get_instance_info(&info, sizeof info);
    init();
    nrt_close();
    EXPECT_EQ(nrt_inspect_config_allocate(&options), NRT_SUCCESS);
    EXPECT_EQ(nrt_inspect_config_free(options), NRT_SUCCESS);
}

/* A child forked at any moment of another thread's init or close never hangs. */
static void fork_at_any_moment(void)
{
    pthread_t thread;
    fake("trn1.2xlarge");
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    EXPECT_EQ(pthread_create(&thread, NULL, init_and_close, NULL), 0);
    for (int i = 0; i < 200; i++)
        in_child(asks_everything);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

static void *asks(void *unused)
{
    nrt_instance_info_t info;
    uint32_t n;
    while (!atomic_load(&stop)) {
        nrt_get_total_vnc_count(&n);
        nrt_get_visible_vnc_count(&n);
        nrt_get_instance_info(&info, sizeof info);
    }
    return unused;
}

/* A child forked before any init, at any moment of another thread's questions, may init. */
static void fork_at_any_moment_before_init(void)
{
    pthread_t thread;
    fake("trn1.2xlarge");
    EXPECT_EQ(pthread_create(&thread, NULL, asks, NULL), 0);
    for (int i = 0; i < 400; i++)
        in_child(may_init);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

int main(void)
{
    RUN(fork_while_running, PRINTS("Incompatible runtime state: NRT_STATE_CHILD"));
    RUN(fork_before_init, QUIET);
    RUN(fork_after_failed_init, PRINTS("NEURON_RT_RESET_CORES"));
    RUN(fork_after_close, PRINTS("Incompatible runtime state: NRT_STATE_CHILD"));
    RUN(fork_at_any_moment, QUIET);
    RUN(fork_at_any_moment_before_init, QUIET);
    return check_done();
}
