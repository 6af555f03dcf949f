/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/device.h"
#include "daemon/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "id:priority[:wait_ms]", devices "name=job"; want "id>device" or
 * "id: reason". */
struct row {
    const char *name, *jobs, *devices, *want;
    bool draining;
};

static const struct row table[] = {
    {"empty queue", "", "cpu0=0", "", false},
    {"one of one", "3:0", "cpu0=0", "3>cpu0\n", false},
    {"first come first served", "3:0 4:0 5:0", "cpu0=0",
     "3>cpu0\n4: next; cpu0 is taken by a job ahead\n"
     "5: 1 job ahead; cpu0 is taken by a job ahead\n",
     false},
    {"order of the list does not matter", "5:0 3:0 4:0", "cpu0=9",
     "5: 2 jobs ahead; cpu0 is held by job 9\n"
     "3: next; cpu0 is held by job 9\n"
     "4: 1 job ahead; cpu0 is held by job 9\n",
     false},
    {"higher priority first", "3:0 4:10 5:-1", "cpu0=0 cpu1=7",
     "3: next; cpu1 is held by job 7\n4>cpu0\n"
     "5: 1 job ahead; cpu1 is held by job 7\n",
     false},
    {"two devices", "3:0 4:0", "cpu0=0 cpu1=0", "3>cpu0\n4>cpu1\n", false},
    {"nobody overtakes one that starts again", "2:0:1500 3:0", "cpu0=0",
     "2: its worker died; it starts again in 1.5 s\n"
     "3: 1 job ahead; cpu0 is taken by a job ahead\n",
     false},
    {"but another device is free", "2:0:200 3:0", "cpu0=0 cpu1=0",
     "2: its worker died; it starts again in 0.2 s\n3>cpu1\n", false},
    {"going down", "3:0 4:0", "cpu0=0",
     "3: the daemon is going down; it starts no job\n"
     "4: the daemon is going down; it starts no job\n",
     true},
    {"many holders", "8:0", "cpu0=1 cpu1=2 cpu2=3 cpu3=4",
     "8: next; cpu0 is held by job 1, cpu1 is held by job 2 and 2 more are "
     "held\n",
     false},
    {"no such device", "3:0", "gpu0=0",
     "3: next; there is no device of kind cpu\n", false},
};

static int
parse_jobs(const char *text, struct schedule_job *out)
{
    char *end;
    int n = 0;

    while (*text != '\0') {
        struct schedule_job *j = &out[n++];

        *j = (struct schedule_job){.kind = "cpu"};
        j->id = strtoll(text, &end, 10);
        j->priority = strtoll(end + 1, &end, 10);
        if (*end == ':')
            j->not_before_ms = strtoll(end + 1, &end, 10);
        text = *end == ' ' ? end + 1 : end;
    }
    return n;
}

static int
parse_devices(const char *text, struct schedule_device *out, char names[][8])
{
    int n = 0, used;
    long long job;

    while (sscanf(text, " %7[^=]=%lld%n", names[n], &job, &used) == 2) {
        out[n].name = names[n];
        out[n].kind = names[n][0] == 'c' ? "cpu" : "gpu";
        out[n].job = job;
        text += used;
        n++;
    }
    return n;
}

static void
test_schedule_table(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct schedule_job jobs[8];
        struct schedule_device devices[8];
        struct schedule_choice choices[8];
        char names[8][8], got[1024] = "", line[256];
        int n = parse_jobs(table[i].jobs, jobs);
        int m = parse_devices(table[i].devices, devices, names);

        assert_true(
            schedule_run(jobs, n, devices, m, table[i].draining, choices));
        for (int k = 0; k < n; k++) {
            if (choices[k].device >= 0)
                snprintf(line, sizeof(line), "%d>%s\n", (int)jobs[k].id,
                         devices[choices[k].device].name);
            else
                snprintf(line, sizeof(line), "%d: %s\n", (int)jobs[k].id,
                         choices[k].reason);
            strcat(got, line);
        }
        if (strcmp(got, table[i].want) != 0)
            print_error("%s\n", table[i].name);
        assert_string_equal(got, table[i].want);
    }
}

static void
test_schedule_large_queue_starts_one(void **ctx)
{
    enum { N = 5000 };
    struct schedule_job *jobs = calloc(N, sizeof(*jobs));
    struct schedule_choice *choices = calloc(N, sizeof(*choices));
    const struct schedule_device device = {"cpu0", "cpu", 0};
    int started = 0;

    (void)ctx;
    for (int i = 0; i < N; i++)
        jobs[i] = (struct schedule_job){N - i, i % 7, "cpu", 0};
    assert_true(schedule_run(jobs, N, &device, 1, false, choices));
    for (int i = 0; i < N; i++) {
        started += choices[i].device >= 0;
        if (choices[i].device >= 0)
            assert_int_equal(jobs[i].priority, 6);
        else
            assert_true(choices[i].reason[0] != '\0');
    }
    assert_int_equal(started, 1);
    free(jobs);
    free(choices);
}

static void
test_schedule_device_leases(void **ctx)
{
    struct schedule_device list[DEVICE_MAX];
    struct devices devices;

    (void)ctx;
    device_init(&devices, 2, 0);
    device_lease(&devices, 1, 17);
    device_list(&devices, list);
    assert_int_equal(list[0].job, 0);
    assert_int_equal(list[1].job, 17);
    assert_string_equal(list[1].name, "cpu1");
    assert_string_equal(devices.v[0].cpus, "");
    device_release(&devices, 16);
    assert_int_equal(devices.v[1].job, 17);
    device_release(&devices, 17);
    assert_int_equal(devices.v[1].job, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_table),
        cmocka_unit_test(test_schedule_large_queue_starts_one),
        cmocka_unit_test(test_schedule_device_leases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
