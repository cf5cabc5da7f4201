/* Prints what the environment of a process can steer; tests/setuid.rs runs it set-uid and not. */
#include <sys/auxv.h>

#include "check.h"
#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "nrt/opennrt.h"

int main(void)
{
    nrt_vnc_memory_stats_t stats;
    uint32_t visible = 0;
    check_diagnostics = 2;
    printf("secure %lu\n", getauxval(AT_SECURE));
    printf("backend %s\n", opennrt_backend());
    fake("trn1.2xlarge");
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_visible_vnc_count(&visible), NRT_SUCCESS);
    EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, NULL), NRT_SUCCESS);
    printf("visible %u\n", visible);
    printf("memory %zu\n", stats.bytes_limit);
    nrt_close();
    return 0;
}
