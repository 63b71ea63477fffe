#include "lessons/grader/toolchain.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace flashsim::lessons {
namespace fs = std::filesystem;
namespace {

/// Where this process finds CUDA's driver. Programs of students start with an empty environment, and on many
/// machines of clusters only LD_LIBRARY_PATH leads there.
fs::path cuda_driver_folder() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return {};
  link_map* file = nullptr;
  fs::path folder;
  if (dlinfo(driver, RTLD_DI_LINKMAP, &file) == 0 && file != nullptr)
    folder = fs::path(file->l_name).parent_path();
  dlclose(driver);
  return folder;
}

}  // namespace

Toolchain toolchain_for(const Exercise& e) {
  Toolchain t = Toolchain::found();
  t.flags = FLASHSIM_STUDENT_FLAGS;
  t.sanitized = false;  // what it is linked with never is
  const bool installed = t.include != fs::path(FLASHSIM_SOURCE_DIR);
  std::error_code ignored;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  const auto library = [&](const char* built) {
    return installed ? prefix / FLASHSIM_LIBDIR / fs::path(built).filename() : fs::path(built);
  };
  t.libraries.clear();
  if (e.has_steps) t.libraries.push_back(library(FLASHSIM_STEPS_LIBRARY));
  t.libraries.push_back(library(e.kind == Kind::softmax_update  ? FLASHSIM_SOFTMAX_LIBRARY
                                : e.kind == Kind::tiling_choice ? FLASHSIM_CHOICE_LIBRARY
                                                                : FLASHSIM_SCHEDULE_LIBRARY));
  t.libraries.push_back(library(FLASHSIM_STUDENT_LIBRARY));
  t.confined_to = {t.include / "simulator" / "machine", t.include / "cpu_reference" / "problem.h",
                   t.include / "lessons" / "exercises" / "given"};
  return t;
}

std::optional<Toolchain> cuda_toolchain_for(const Exercise& e, const fs::path& compiler) {
  Toolchain t = Toolchain::found();
  t.compiler = compiler.string();
  for (const char* place : {FLASHSIM_NVCC, "/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"})
    if (t.compiler.empty() && *place != '\0' && fs::exists(place)) t.compiler = place;
  if (t.compiler.empty()) return {};
  const fs::path given = t.include / "lessons" / "exercises" / "given";
  t.language = {"-std=c++17", "-O2"};
  t.piped = {"-Xcompiler", "-pipe"};
  t.flags.clear();
  t.sanitized = false;
  t.libraries = {given / (e.number == 11 ? "cuda_softmax_main.cu" : "cuda_flash_main.cu")};
  t.confined_to = {given};
  t.uses_gpu = true;
  t.driver_folder = cuda_driver_folder();
  return t;
}

}  // namespace flashsim::lessons
