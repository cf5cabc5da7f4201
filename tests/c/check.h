/* Small harness of the C programs: each scenario runs in a child process of its own, because the
 * library keeps process-wide state, and what it printed is looked at afterwards. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(cond)                                                                                                   \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            dprintf(check_diagnostics, "%s:%d: expected %s\n", __FILE__, __LINE__, #cond);                                             \
            _exit(99);                                                                                                 \
        }                                                                                                              \
    } while (0)

#define EXPECT_EQ(have, want)                                                                                          \
    do {                                                                                                               \
        long long have_ = (long long)(have), want_ = (long long)(want);                                                \
        if (have_ != want_) {                                                                                          \
            dprintf(check_diagnostics, "%s:%d: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, #have, have_, #want, want_);     \
            _exit(99);                                                                                                 \
        }                                                                                                              \
    } while (0)

static int check_diagnostics;
static int check_failures;
static int check_scenarios;

/* Run `scenario` in a child. Everything the child prints on stdout and stderr must hold each of
 * the needles (a NULL-terminated list), none of those that start with '!', and nothing at all when
 * the list is empty; and it must fit on a screen. */
static inline void check_run(const char *name, void (*scenario)(void), const char *const *needles)
{
    static char text[1 << 20];
    FILE *out = tmpfile();
    int status = 0;
    size_t length;

    check_scenarios++;
    check_diagnostics = dup(2);
    if (out == NULL || check_diagnostics < 0) {
        perror("check_run");
        exit(1);
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(out), 1);
        dup2(fileno(out), 2);
        scenario();
        exit(0);
    }
    waitpid(child, &status, 0);
    rewind(out);
    length = fread(text, 1, sizeof text - 1, out);
    text[length] = '\0';
    fclose(out);
    close(check_diagnostics);

    int bad = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (needles[0] == NULL && length != 0) {
        fprintf(stderr, "%s: expected no output\n", name);
        bad = 1;
    }
    size_t lines = 0;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    if (lines > 50) {
        fprintf(stderr, "%s: %zu lines of output are more than a screen\n", name, lines);
        bad = 1;
    }
    for (; *needles != NULL; needles++) {
        int unwanted = **needles == '!';
        if ((strstr(text, *needles + unwanted) == NULL) != unwanted) {
            fprintf(stderr, "%s: output %s \"%s\"\n", name, unwanted ? "holds" : "lacks", *needles + unwanted);
            bad = 1;
        }
    }
    if (bad) {
        fprintf(stderr, "%s: status 0x%x, output:\n%s", name, (unsigned)status, text);
        check_failures++;
    }
}

#define QUIET (const char *const[]){NULL}
#define PRINTS(...) (const char *const[]){__VA_ARGS__, NULL}
#define RUN(scenario, expectation) check_run(#scenario, scenario, expectation)

static inline int check_done(void)
{
    printf("%d scenarios, %d failed\n", check_scenarios, check_failures);
    return check_failures != 0;
}

static inline void fake(const char *type)
{
    setenv("NEURON_RT_FAKE_INSTANCE_TYPE", type, 1);
}

#endif
