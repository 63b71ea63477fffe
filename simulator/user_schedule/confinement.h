// What a child process is kept from, as far as an unprivileged process can ask the Linux kernel to: files by
// Landlock (Linux 5.13 and later), system calls by seccomp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace flashsim {

/// What a program may do beyond itself. Signals to other processes, tracing them and changing their limits
/// are refused with `threads` and `none`.
enum class Processes : std::uint8_t {
  any,      ///< starts other programs, as a compiler does
  threads,  ///< starts threads of its own and uses sockets, as CUDA's driver may
  none      ///< neither starts a process or thread nor opens a socket
};

/// Everything that is not listed is refused. Paths that do not exist are left out.
struct Confinement {
  std::vector<std::filesystem::path> readable;  ///< files or whole folders; may be executed too
  std::vector<std::filesystem::path> writable;  ///< may also be read, and files in them made and removed
  Processes processes = Processes::none;
  /// /proc/self may be read and written, as CUDA's driver does to name its threads; of other processes
  /// nothing.
  bool own_proc = false;
};

/// What this kernel and build can enforce.
struct ConfinementSupport {
  bool files = false;         ///< Landlock
  bool system_calls = false;  ///< seccomp
  bool complete() const { return files && system_calls; }
  /// Empty, or what is not enforced, as a sentence for staff.
  std::string note() const;
};
ConfinementSupport confinement_support();

/// A confinement made ready before fork, because almost nothing may be done between fork and exec.
class PreparedConfinement {
 public:
  explicit PreparedConfinement(const Confinement& c);
  PreparedConfinement(const PreparedConfinement&) = delete;
  PreparedConfinement& operator=(const PreparedConfinement&) = delete;
  ~PreparedConfinement();
  /// In the child, after PR_SET_NO_NEW_PRIVS. False where the kernel refused what it said it supports.
  bool apply() const noexcept;
  /// The descriptor that must stay open until apply(); -1 for none.
  int descriptor() const { return ruleset_; }

 private:
  int ruleset_ = -1;
  std::uint64_t own_proc_rights_ = 0;  ///< Landlock's, on /proc/self
  bool filter_system_calls_ = false, threads_ = false;
};

}  // namespace flashsim
