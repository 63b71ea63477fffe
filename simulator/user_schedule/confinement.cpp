#include "simulator/user_schedule/confinement.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace flashsim {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t this_architecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t this_architecture = 0;
#endif

// Rights by the version of Landlock that knows them; headers may be older than the kernel.
constexpr std::uint64_t execute_right = 1 << 0, write_file = 1 << 1, read_file = 1 << 2, read_dir = 1 << 3;
constexpr std::uint64_t first_version = (1 << 13) - 1, refer = 1 << 13, truncate_right = 1 << 14;

int landlock_version() {
  const long v = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return v > 0 ? static_cast<int>(v) : 0;
}

std::uint64_t handled_rights(int version) {
  return first_version | (version >= 2 ? refer : 0) | (version >= 3 ? truncate_right : 0);
}

bool seccomp_available() {
  const std::uint32_t action = SECCOMP_RET_ERRNO;
  return this_architecture != 0 && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

void allow(int ruleset, const char* path, std::uint64_t rights) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  struct stat s;
  if (fstat(fd, &s) == 0 && !S_ISDIR(s.st_mode))
    rights &= execute_right | write_file | read_file | truncate_right;
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = rights;
  beneath.parent_fd = fd;
  syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
  close(fd);
}

/// Calls that reach other processes, start some, or leave this machine.
constexpr std::array refused = {
#ifdef SYS_fork
    SYS_fork,
#endif
#ifdef SYS_vfork
    SYS_vfork,
#endif
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_setpriority,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    SYS_ioprio_set,
    SYS_move_pages,
    SYS_migrate_pages,
    SYS_kcmp,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal};
/// Calls that CUDA's driver may need for its threads.
constexpr std::array refused_without_threads = {SYS_clone, SYS_socket,  SYS_socketpair,
                                                SYS_bind,  SYS_connect, SYS_sched_setaffinity};
/// Commands, as second arguments, that have the kernel signal the owner of a file: who owns the channel could
/// be made the process at its other end.
struct Command {
  long call;
  std::uint32_t command;
};
constexpr std::array refused_commands = {Command{SYS_fcntl, F_SETOWN}, Command{SYS_fcntl, F_SETOWN_EX},
                                         Command{SYS_fcntl, F_SETSIG}, Command{SYS_ioctl, FIOSETOWN},
                                         Command{SYS_ioctl, SIOCSPGRP}};
/// Calls whose first argument may name this process only (or 0, for prlimit64).
constexpr std::array own_process_only = {SYS_kill, SYS_tgkill, SYS_prlimit64};

constexpr sock_filter statement(std::uint16_t code, std::uint32_t k) { return {code, 0, 0, k}; }
constexpr sock_filter jump(std::uint16_t code, std::uint32_t k, std::uint8_t yes, std::uint8_t no) {
  return {code, yes, no, k};
}
constexpr std::uint16_t load_word = BPF_LD | BPF_W | BPF_ABS, equal = BPF_JMP | BPF_JEQ | BPF_K,
                        at_least = BPF_JMP | BPF_JGE | BPF_K, has_bits = BPF_JMP | BPF_JSET | BPF_K,
                        give = BPF_RET | BPF_K;
constexpr std::uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;

/// In the child: the stack is its only memory.
bool filter_system_calls(bool threads) {
  std::array<sock_filter, 16 + 2 * (refused.size() + refused_without_threads.size()) +
                              5 * refused_commands.size() + 8 * own_process_only.size()>
      program{};
  std::size_t n = 0;
  const auto add = [&](sock_filter f) { program[n++] = f; };
  add(statement(load_word, offsetof(seccomp_data, arch)));
  add(jump(equal, this_architecture, 1, 0));
  add(statement(give, SECCOMP_RET_KILL_PROCESS));
  add(statement(load_word, offsetof(seccomp_data, nr)));
#ifdef __x86_64__
  add(jump(at_least, 0x40000000, 0, 1));  // the x32 numbers of the same calls
  add(statement(give, refuse));
#endif
  add(jump(equal, SYS_clone3, 0, 1));
  add(statement(give, SECCOMP_RET_ERRNO | ENOSYS));  // so that libraries fall back on clone
  for (const long call : refused) {
    add(jump(equal, static_cast<std::uint32_t>(call), 0, 1));
    add(statement(give, refuse));
  }
  if (threads) {
    add(jump(equal, SYS_clone, 0, 4));
    add(statement(load_word,
                  offsetof(seccomp_data, args[0])));  // its low half, on these little-endian machines
    add(jump(has_bits, CLONE_THREAD, 1, 0));
    add(statement(give, refuse));
    add(statement(give, SECCOMP_RET_ALLOW));
  } else {
    for (const long call : refused_without_threads) {
      add(jump(equal, static_cast<std::uint32_t>(call), 0, 1));
      add(statement(give, refuse));
    }
  }
  for (const Command& c : refused_commands) {
    add(jump(equal, static_cast<std::uint32_t>(c.call), 0, 4));
    add(statement(load_word, offsetof(seccomp_data, args[1])));
    add(jump(equal, c.command, 0, 1));
    add(statement(give, refuse));
    add(statement(load_word, offsetof(seccomp_data, nr)));
  }
  const auto self = static_cast<std::uint32_t>(getpid());
  for (const long call : own_process_only) {
    const bool zero_is_self = call == SYS_prlimit64;
    add(jump(equal, static_cast<std::uint32_t>(call), 0, zero_is_self ? 5 : 4));
    add(statement(load_word, offsetof(seccomp_data, args[0])));
    if (zero_is_self) add(jump(equal, 0, 2, 0));
    add(jump(equal, self, 1, 0));
    add(statement(give, refuse));
    add(statement(give, SECCOMP_RET_ALLOW));
  }
  add(statement(give, SECCOMP_RET_ALLOW));
  const sock_fprog whole{static_cast<unsigned short>(n), program.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) == 0;
}

}  // namespace

ConfinementSupport confinement_support() { return {landlock_version() > 0, seccomp_available()}; }

std::string ConfinementSupport::note() const {
  if (complete()) return {};
  const std::string what = files          ? "start processes and signal others"
                           : system_calls ? "read this user's files"
                                          : "read this user's files, start processes and signal others";
  return "this kernel cannot keep student code from what its user may do otherwise: it could " + what +
         ". Grade in a container or as a user of its own" +
         (files ? "" : " (Landlock needs Linux 5.13 or later)");
}

PreparedConfinement::PreparedConfinement(const Confinement& c) {
  const int version = landlock_version();
  filter_system_calls_ = c.processes != Processes::any && seccomp_available();
  threads_ = c.processes == Processes::threads;
  if (version == 0) return;
  landlock_ruleset_attr rules{};
  rules.handled_access_fs = handled_rights(version);
  ruleset_ =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, sizeof rules.handled_access_fs, 0));
  if (ruleset_ < 0) return;
  for (const auto& path : c.readable) allow(ruleset_, path.c_str(), execute_right | read_file | read_dir);
  for (const auto& path : c.writable) allow(ruleset_, path.c_str(), handled_rights(version) & ~refer);
  // A file opened for writing from its start is truncated, also where that means nothing.
  if (c.own_proc)
    own_proc_rights_ = (read_file | read_dir | write_file | truncate_right) & handled_rights(version);
}

PreparedConfinement::~PreparedConfinement() {
  if (ruleset_ >= 0) close(ruleset_);
}

bool PreparedConfinement::apply() const noexcept {
  if (ruleset_ >= 0 && own_proc_rights_ != 0)
    allow(ruleset_, "/proc/self", own_proc_rights_);  // only now is this the child's
  if (ruleset_ >= 0 && syscall(SYS_landlock_restrict_self, ruleset_, 0) != 0) return false;
  return !filter_system_calls_ || filter_system_calls(threads_);
}

}  // namespace flashsim
