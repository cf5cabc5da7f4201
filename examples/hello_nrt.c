/* What a program written against nrt.h sees: version, backend, instance, counts, logical core size.
 *
 *   gcc -I include examples/hello_nrt.c -L target/debug -lnrt -o hello_nrt
 *   NEURON_RT_FAKE_INSTANCE_TYPE=trn2.48xlarge LD_LIBRARY_PATH=target/debug ./hello_nrt
 */
#include <stdio.h>
#include <stdlib.h>

#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_version.h"
#include "nrt/opennrt.h"

static void check(NRT_STATUS status, const char *call)
{
    if (status != NRT_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, nrt_get_status_as_str(status));
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

int main(void)
{
    nrt_version_t version;
    nrt_instance_info_t instance;
    uint32_t total, visible, lnc_size;

    CHECK(nrt_get_version(&version, sizeof version));
    CHECK(nrt_get_instance_info(&instance, sizeof instance));
    CHECK(nrt_get_total_vnc_count(&total));
    CHECK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    CHECK(nrt_get_visible_vnc_count(&visible));
    CHECK(nec_get_virtual_core_size(&lnc_size));

    printf("version    %s\n", version.rt_detail);
    printf("backend    %s\n", opennrt_backend());
    printf("instance   family %u, size %u, %s\n", instance.family, instance.size, instance.arch_name);
    printf("cores      %u total, %u visible\n", total, visible);
    printf("LNC size   %u\n", lnc_size);

    nrt_close();
    return 0;
}
