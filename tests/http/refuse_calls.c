/* refuse_calls.c — runs a command for which system calls fail with EPERM, as a container's profile
 * makes them.
 *   usage: refuse_calls numa|madvise COMMAND...
 * Exit code 2: the system does not allow it. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node 450
#endif

static const long numa[] = { SYS_mbind,      SYS_set_mempolicy, SYS_get_mempolicy,
                             SYS_move_pages, SYS_migrate_pages, SYS_set_mempolicy_home_node };
static const long advice[] = { SYS_madvise };
enum { CALLS_MAX = sizeof numa / sizeof *numa };

static int refuse(const long *calls, size_t count)
{
    struct sock_filter code[2 * CALLS_MAX + 2];
    unsigned short length = 0;
    code[length++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = { length, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return -1;
    return syscall(calls[0], 0, 0, 0, 0, 0, 0) == -1 && errno == EPERM ? 0 : -1;
}

int main(int argc, char *argv[])
{
    const int of_advice = argc > 2 && strcmp(argv[1], "madvise") == 0;
    if (argc < 3 || (of_advice ? refuse(advice, 1) : refuse(numa, CALLS_MAX)) != 0) {
        perror("seccomp");
        return 2;
    }
    execv(argv[2], &argv[2]);
    perror(argv[2]);
    return 2;
}
