/* stop_thread.c — stops one thread of another process, as a hanging one would, until it is killed.
 *   usage: stop_thread TID
 * Prints a line once the thread stands still.  Exit code 2: the system does not allow it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
    const pid_t thread = argc == 2 ? (pid_t)atoi(argv[1]) : 0;
    if (thread <= 0 || ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
        perror("ptrace");
        return 2;
    }
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 || waitpid(thread, NULL, __WALL) < 0)
        return 1;
    puts("stopped");
    fflush(stdout);
    for (;;)
        pause();
}
