/* A network library under an application (libfabric's Neuron memory layer under a framework).
 *
 * The application has loaded libnrt by its full path. The network library comes later, knows only
 * the short name, takes the functions it needs with dlsym and does without the optional ones, and
 * registers memory that is not its own: an address and a length. Breaks when the SONAME is another
 * one, when a name is missing, when a refused dma-buf looks like used-up memory (4), and when the
 * last dlclose unmaps code that another thread is in.
 *
 *     network_library FULL_PATH        without a library path */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "client.h"
#include "nrt/nrt.h"

enum { SIZE = 1 << 20, CYCLES = 100 };

static struct {
    NRT_STATUS (*init)(nrt_framework_type_t, const char *, const char *);
    void (*close)(void);
    NRT_STATUS (*count)(uint32_t *);
    NRT_STATUS (*allocate)(nrt_tensor_placement_t, int, size_t, const char *, nrt_tensor_t **);
    void (*free)(nrt_tensor_t **);
    NRT_STATUS (*read)(const nrt_tensor_t *, void *, size_t, size_t);
    NRT_STATUS (*write)(nrt_tensor_t *, const void *, size_t, size_t);
    void *(*va)(const nrt_tensor_t *);
    NRT_STATUS (*to_device)(void *, const void *, size_t);
    /* Optional: NULL in older runtimes. */
    NRT_STATUS (*dmabuf)(uint64_t, uint64_t, int *);
    NRT_STATUS (*adapter)(const void *, char *, size_t *);
    void *async_write;
    void *from_the_future;
} nrt;

static const struct {
    const char *name;
    void *place;
    enum { REQUIRED, OPTIONAL, ABSENT } kind;
} functions[] = {
    {"nrt_init", &nrt.init, REQUIRED},
    {"nrt_close", &nrt.close, REQUIRED},
    {"nrt_get_total_nc_count", &nrt.count, REQUIRED},
    {"nrt_tensor_allocate", &nrt.allocate, REQUIRED},
    {"nrt_tensor_free", &nrt.free, REQUIRED},
    {"nrt_tensor_read", &nrt.read, REQUIRED},
    {"nrt_tensor_write", &nrt.write, REQUIRED},
    {"nrt_tensor_get_va", &nrt.va, REQUIRED},
    {"nrt_memcpy_to_device", &nrt.to_device, REQUIRED},
    {"nrt_get_dmabuf_fd", &nrt.dmabuf, OPTIONAL},
    {"nrt_get_attached_efa_bdf", &nrt.adapter, OPTIONAL},
    {"nrta_tensor_write", &nrt.async_write, OPTIONAL},
    {"nrta_event_create", &nrt.from_the_future, ABSENT},
};

static void find_functions(void *library)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        dlerror();
        void *found = dlsym(library, functions[i].name);
        /* This level has all the optional ones; what it has not is an answer, not an error. */
        MUST((found != NULL) == (functions[i].kind != ABSENT));
        MUST((dlerror() == NULL) == (found != NULL));
        memcpy(functions[i].place, &found, sizeof found);
    }
}

/* A descriptor to give to the adapter, or -1: then the memory goes through the processor. */
static int registered(const void *address, size_t length)
{
    int fd = -1;
    NRT_STATUS status = nrt.dmabuf((uint64_t)(uintptr_t)address, length, &fd);
    /* 4 would be taken for used-up memory, and the application would be told to free some. */
    MUST(status != NRT_RESOURCE);
    MUST((status == NRT_SUCCESS) == (fd >= 0));
    return fd;
}

static nrt_tensor_t *tensor;
static unsigned char sent[SIZE], received[SIZE];
static atomic_ulong calls;
static atomic_int done;

static void *traffic(void *unused)
{
    unsigned char bytes[512];
    (void)unused;
    while (!atomic_load(&done)) {
        uint32_t cores = 0;
        MUST_BE(nrt.count(&cores), NRT_SUCCESS);
        MUST(cores > 0);
        MUST_BE(nrt.read(tensor, bytes, 100, sizeof bytes), NRT_SUCCESS);
        MUST(memcmp(bytes, sent + 100, sizeof bytes) == 0);
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    /* Without the application nobody would find it. */
    MUST(dlopen("libnrt.so.1", RTLD_NOW) == NULL);
    void *application = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    MUST(application != NULL);
    void *library = dlopen("libnrt.so.1", RTLD_NOW);
    MUST(library == application);
    find_functions(library);

    /* Whether to offer device memory at all is decided by a count, before anybody has called nrt_init. */
    uint32_t cores = 0;
    MUST_BE(nrt.count(&cores), NRT_SUCCESS);
    MUST(cores > 0);

    MUST_BE(nrt.init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    MUST_BE(nrt.allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, SIZE, "message", &tensor), NRT_SUCCESS);
    unsigned char *address = nrt.va(tensor);
    MUST(address != NULL);

    int fd = registered(address, SIZE);
    if (fd >= 0)
        close(fd);
    /* Not on a page, not whole pages, not device memory: never exported. */
    MUST_BE(registered(address + 1, SIZE - 4096), -1);
    MUST_BE(registered(address, 4097), -1);
    MUST_BE(registered(sent, 4096), -1);
    char bdf[16] = "";
    size_t length = sizeof bdf;
    NRT_STATUS status = nrt.adapter(address, bdf, &length);
    MUST(status != NRT_SUCCESS || length < sizeof bdf);

    /* What goes on without a dma-buf: copies, by address and through the tensor, see each other. */
    client_fill(sent, SIZE, 1);
    MUST_BE(nrt.to_device(address, sent, SIZE), NRT_SUCCESS);
    MUST_BE(nrt.read(tensor, received, 0, SIZE), NRT_SUCCESS);
    MUST(memcmp(received, sent, SIZE) == 0);
    client_fill(sent, SIZE, 2);
    MUST_BE(nrt.write(tensor, sent, 0, SIZE), NRT_SUCCESS);
    memcpy(received, address, SIZE);
    MUST(memcmp(received, sent, SIZE) == 0);

    /* Loaded and unloaded by everybody while a thread is inside. */
    pthread_t thread;
    MUST_BE(pthread_create(&thread, NULL, traffic, NULL), 0);
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        MUST_BE(dlclose(library), 0);
        MUST_BE(dlclose(application), 0);
        unsigned long before = atomic_load(&calls);
        while (atomic_load(&calls) < before + 2)
            sched_yield();
        application = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
        library = dlopen("libnrt.so.1", RTLD_NOW);
        MUST(application != NULL && library == application);
        /* A library that comes back does not know that the runtime is up. */
        MUST_BE(nrt.init(NRT_FRAMEWORK_TYPE_NO_FW, "2.0", ""), NRT_SUCCESS);
    }
    atomic_store(&done, 1);
    MUST_BE(pthread_join(thread, NULL), 0);

    nrt.free(&tensor);
    MUST(tensor == NULL);
    nrt.close();
    return 0;
}
