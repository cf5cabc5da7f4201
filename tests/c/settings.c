/* nrt_init with one variable set, a case a line on standard input: name, text, kind and simulated
 * instance, between tabs. A legal text is taken in silence, a tolerated one is taken. After an illegal one the runtime is down
 * and comes up in the same process as soon as the variable is right. */
#include "check.h"
#include "nrt/nrt.h"
#include "nrt/opennrt.h"

static char *name, *text, *kind, *instance;

static NRT_STATUS init(void) { return nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""); }

static int heap_record(void)
{
    const void *cfg, *gcfg;
    size_t cfg_len, gcfg_len;
    EXPECT_EQ(opennrt_config_raw(&cfg, &cfg_len, &gcfg, &gcfg_len), NRT_SUCCESS);
    return gcfg != NULL;
}

static void down(void)
{
    nrt_tensor_t *t = NULL;
    EXPECT(!heap_record());
    EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 64, "t", &t), NRT_UNINITIALIZED);
    EXPECT(t == NULL);
}

static void up_and_down_again(void)
{
    EXPECT_EQ(init(), NRT_SUCCESS);
    EXPECT(heap_record());
    nrt_close();
    EXPECT(!heap_record());
}

static void one_case(void)
{
    fake(instance);
    setenv(name, text, 1);
    if (strcmp(kind, "illegal") != 0) {
        up_and_down_again();
        return;
    }
    EXPECT_EQ(init(), NRT_INVALID);
    down();
    unsetenv(name);
    fake(instance);
    up_and_down_again();
}

/* Variables with an illegal text, all of them wrong at once. */
static char *all[1 << 11];
static int count;

static void everything_is_wrong(void)
{
    for (int i = 0; i < count; i++)
        setenv(all[i], "(", 1);
    fake("trn3.48xlarge");
    EXPECT_EQ(init(), NRT_INVALID);
    for (int i = 0; i < count; i++)
        unsetenv(all[i]);
    fake("trn3.48xlarge");
    up_and_down_again();
}

int main(void)
{
    static char line[1 << 13];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char label[100];
        char *rest = line;
        line[strcspn(line, "\n")] = '\0';
        name = strsep(&rest, "\t");
        text = strsep(&rest, "\t");
        kind = strsep(&rest, "\t");
        instance = rest;
        snprintf(label, sizeof label, "%s %s=%.40s", kind, name, text);
        if (strcmp(kind, "illegal") == 0 && count < 1 << 11)
            all[count++] = strdup(name);
        /* A tolerated text may be told or taken. */
        const char *said = strcmp(kind, "illegal") == 0 ? name : "";
        check_run(label, one_case, strcmp(kind, "legal") == 0 ? QUIET : PRINTS(said));
    }
    RUN(everything_is_wrong, PRINTS("more settings are refused; nrt-info --config shows all of them"));
    return check_done();
}
