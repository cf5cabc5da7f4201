/* Calls every function with all arguments 0 in each state a program can be in, every call in a
 * process of its own, and prints what happened; tests/calls.rs knows what should have. A stretch of
 * output starts with "# STATE NAME"; "= N" is the whole return register. */
#include "check.h"

#include "all_headers.inc"

typedef unsigned long (*any_function)(long, long, long, long, long, long, long, long, long);

struct entry {
    const char *name;
    void (*address)(void);
};

static const struct entry entries[] = {
#define SYMBOL(name, node) {#name, (void (*)(void))name},
#include "symbols.inc"
#undef SYMBOL
};

static void in_child(void (*body)(const struct entry *), const struct entry *entry)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        /* Nothing waits that long: a call that hangs is a death like any other. */
        alarm(60);
        body(entry);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        dprintf(1, "died 0x%x\n", (unsigned)status);
}

static void init(void)
{
    if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS)
        dprintf(1, "died in nrt_init\n");
}

static void start(const struct entry *entry)
{
    any_function call = (any_function)entry->address;
    dprintf(1, "= %lu\n", call(0, 0, 0, 0, 0, 0, 0, 0, 0));
}

static void up(const struct entry *entry)
{
    init();
    start(entry);
}

static void forked(const struct entry *entry)
{
    init();
    in_child(start, entry);
}

static void closed(const struct entry *entry)
{
    init();
    nrt_close();
    start(entry);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*body)(const struct entry *);
    } states[] = {{"START", start}, {"INIT", up}, {"CHILD", forked}, {"AGAIN", closed}};
    fake("trn1.2xlarge");
    dup2(1, 2);
    for (size_t s = 0; s < sizeof states / sizeof states[0]; s++) {
        for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
            dprintf(1, "# %s %s\n", states[s].name, entries[i].name);
            in_child(states[s].body, &entries[i]);
        }
    }
    return 0;
}
