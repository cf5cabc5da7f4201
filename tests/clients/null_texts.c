/* Old and careless callers: NULL for every text, and an nrt_init with fewer arguments than today's,
 * which leaves in the last ones whatever the registers held. Breaks when the library follows such
 * a pointer. With texts that are versions as far as they go, the log says what was read. */
#include <sys/mman.h>

#include "client.h"
#include "nrt/nrt.h"

enum { PAGE = 4096 };

static void cycle(const char *fw_version, const char *fal_version)
{
    MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, fw_version, fal_version), NRT_SUCCESS);
    nrt_close();
}

/* `text` without its NUL at the end of the last page there is; nothing is mapped behind it. */
static const char *unterminated(const char *text)
{
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED && munmap(pages + PAGE, PAGE) == 0);
    return memcpy(pages + PAGE - strlen(text), text, strlen(text));
}

/* A page of a file that has been cut: reading it is SIGBUS. */
static const char *cut_file(void)
{
    FILE *file = tmpfile();
    MUST(file != NULL && ftruncate(fileno(file), PAGE) == 0);
    const char *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fileno(file), 0);
    MUST(page != MAP_FAILED && ftruncate(fileno(file), 0) == 0);
    return page;
}

int main(void)
{
    static char endless[1 << 20];
    memset(endless, 'x', sizeof endless);
    void *hidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Across two pages, the second of which is there. */
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(hidden != MAP_FAILED && pages != MAP_FAILED);
    const char *across = strcpy(pages + PAGE - 5, "2.9.1-across");
    const char *const garbage[] = {
        NULL,
        "",
        (const char *)(uintptr_t)1,
        (const char *)(uintptr_t)0xdead0000,
        (const char *)(uintptr_t)0xdeadbeef00000000, /* no address at all */
        (const char *)(uintptr_t)0xffffffff80000000, /* the kernel's */
        (const char *)UINTPTR_MAX,
        hidden,
        cut_file(),
        unterminated("2.9.1-unterminated"),
        across,
        "2.9.1-cut\nhere",
        endless,
        (const char *)(uintptr_t)&cycle,
    };
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        cycle("2.9", garbage[i]);
        cycle(garbage[i], garbage[i]);
    }
    /* As the compiler of such a caller sees it. */
    NRT_STATUS (*two)(nrt_framework_type_t, const char *);
    void *address = (void *)(uintptr_t)&nrt_init;
    memcpy(&two, &address, sizeof two);
    MUST_BE(two(NRT_FRAMEWORK_TYPE_NO_FW, ""), NRT_SUCCESS);
    MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, NULL, (const char *)UINTPTR_MAX), NRT_SUCCESS);

    nrt_tensor_t *whole = NULL, *slice = NULL, *empty = NULL, *found = NULL;
    nrt_tensor_set_t *set = NULL;
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 256, NULL, &whole), NRT_SUCCESS);
    MUST_BE(nrt_tensor_allocate_slice(whole, 128, 64, NULL, &slice), NRT_SUCCESS);
    MUST_BE(nrt_tensor_allocate_empty(NULL, &empty), NRT_SUCCESS);
    MUST_BE(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
    MUST_BE(nrt_add_tensor_to_tensor_set(set, NULL, whole), NRT_INVALID);
    MUST_BE(nrt_get_tensor_from_tensor_set(set, NULL, &found), NRT_INVALID);
    MUST(found == NULL);
    nrt_destroy_tensor_set(&set);
    nrt_tensor_free(&whole);
    nrt_tensor_free(&slice);
    nrt_tensor_free(&empty);
    nrt_tensor_free(&empty);
    nrt_tensor_free(NULL);
    nrt_close();
    return 0;
}
