// Times a command as a process, from the call that starts it to its end, its output read on the way:
//
//   cc -O2 -o stopwatch stopwatch.c && echo | ./stopwatch ip -o link
//
// Runs it once for each line of its input, and answers by a JSON object on a line of its own: the time in ms, the exit
// status, the lines and bytes that the command printed, and the most memory that it had, in KiB. A small program, since
// starting a process costs the more, the larger the one is that starts it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void must(int error, const char *what) {
  if (!error) return;
  fprintf(stderr, "stopwatch: %s: %s\n", what, strerror(error));
  exit(1);
}

int main(int argc, char **argv) {
  if (argc < 2) { fprintf(stderr, "stopwatch: which command?\n"); return 2; }
  static char output[1 << 18];
  char *line = NULL;
  size_t size = 0;
  while (getline(&line, &size, stdin) > 0) {
    int ends[2];
    must(pipe2(ends, O_CLOEXEC) ? errno : 0, "pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    pid_t child;
    double start = now_ms();
    must(posix_spawnp(&child, argv[1], &actions, NULL, argv + 1, environ), argv[1]);
    close(ends[1]);
    long lines = 0, bytes = 0, n;
    while ((n = read(ends[0], output, sizeof output)) > 0) {
      bytes += n;
      for (char *at = output; (at = memchr(at, '\n', output + n - at)); at++) lines++;
    }
    int status;
    struct rusage used;
    must(wait4(child, &status, 0, &used) < 0 ? errno : 0, "wait");
    double ms = now_ms() - start;
    close(ends[0]);
    posix_spawn_file_actions_destroy(&actions);
    printf("{\"ms\":%.4f,\"status\":%d,\"lines\":%ld,\"bytes\":%ld,\"kib\":%ld}\n", ms,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), lines, bytes, used.ru_maxrss);
    fflush(stdout);
  }
  return 0;
}
