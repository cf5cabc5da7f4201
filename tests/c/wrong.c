/* What the tools of tests/sanitizers.rs have to find: `wrong leak`, `wrong read` and `wrong race`. */
#include <pthread.h>

#include "check.h"
#include "nrt/nrt.h"

static char *volatile lost;
static int shared;

static void up(void)
{
    fake("trn1.2xlarge");
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
}

static void leak(void)
{
    up();
    lost = malloc(4321);
    lost = NULL;
    nrt_close();
}

static void read_behind(void)
{
    nrt_tensor_t *t = NULL;
    up();
    lost = malloc(10);
    memset(lost, 1, 10);
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, 64, "t", &t), NRT_SUCCESS);
    shared = lost[10];
    free(lost);
    nrt_tensor_free(&t);
    nrt_close();
}

/* Nothing comes between the two threads: every call of the library could order them. */
static void *count(void *unused)
{
    shared++;
    return unused;
}

static void race(void)
{
    pthread_t other;
    up();
    EXPECT_EQ(pthread_create(&other, NULL, count, NULL), 0);
    count(NULL);
    pthread_join(other, NULL);
    nrt_close();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "leak") == 0)
        RUN(leak, QUIET);
    if (strcmp(what, "read") == 0)
        RUN(read_behind, QUIET);
    if (strcmp(what, "race") == 0)
        RUN(race, QUIET);
    return check_done();
}
