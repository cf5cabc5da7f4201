/* First process of the guest of `make vm-test`: mounts, loads the driver, waits for the devices, runs
 * the client and switches the machine off. The last line it prints is the result.
 *
 * Parameters of the kernel command line: devices=COUNT family=NUMBER. They arrive in the environment. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A reset of a device takes less than a second; under emulation with 16 of them it adds up. */
enum { SECONDS = 120 };

static void off(const char *result)
{
    printf("vm-test: %s\n", result);
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    _exit(1);
}

static void need(int ok, const char *what)
{
    if (!ok) {
        printf("vm-test: %s: %s\n", what, strerror(errno));
        off("failed");
    }
}

/* The driver says nothing when the last device is there, so look until it is. */
static void wait_for_devices(int count)
{
    for (int tenths = 0; tenths < 10 * SECONDS; tenths++) {
        int there = 0;
        for (int i = 0; i < count; i++) {
            char path[32];
            snprintf(path, sizeof path, "/dev/neuron%d", i);
            there += access(path, R_OK | W_OK) == 0;
        }
        if (there == count)
            return;
        usleep(100000);
    }
    printf("vm-test: the driver did not show %d devices in %d seconds\n", count, SECONDS);
    off("failed");
}

int main(void)
{
    const char *devices = getenv("devices"), *family = getenv("family");
    int status = 0, module;

    mkdir("/dev", 0755), mkdir("/proc", 0755), mkdir("/sys", 0755);
    /* The kernel may have mounted this one itself. */
    if (mount("dev", "/dev", "devtmpfs", 0, NULL) != 0)
        need(errno == EBUSY, "mount /dev");
    int console = open("/dev/console", O_RDWR);
    if (console >= 0)
        for (int fd = 0; fd < 3; fd++)
            dup2(console, fd);
    need(mount("proc", "/proc", "proc", 0, NULL) == 0, "mount /proc");
    need(mount("sys", "/sys", "sysfs", 0, NULL) == 0, "mount /sys");
    need(devices != NULL && family != NULL, "read the command line");

    module = open("/neuron.ko", O_RDONLY | O_CLOEXEC);
    need(module >= 0, "open the module");
    need(syscall(SYS_finit_module, module, "", 0) == 0, "load the module");
    wait_for_devices(atoi(devices));

    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        setenv("LD_LIBRARY_PATH", "/lib", 1);
        execl("/client", "client", devices, family, (char *)NULL);
        perror("client");
        _exit(127);
    }
    waitpid(child, &status, 0);
    printf("vm-test: the client ended with %#x\n", (unsigned)status);
    off(status == 0 ? "ok" : "failed");
}
