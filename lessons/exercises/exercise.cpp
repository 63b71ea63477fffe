#include "lessons/exercises/exercise.h"

#include "lessons/exercises/embedded.h"

namespace flashsim::lessons {
namespace {

std::string_view embedded(const std::string& path) {
  for (const EmbeddedFile& f : embedded_files())
    if (f.path == path) return f.text;
  throw WorkspaceError(path + " was not compiled in; build flashsim again");
}

std::string in_folder(const Exercise& e, const std::string& file) { return std::string(e.name) + "/" + file; }

}  // namespace

const std::vector<Exercise>& exercises() {
  static const std::vector<Exercise> all = {
      {1, "01_online_softmax", "one step of online softmax", Kind::softmax_update},
      {2, "02_naive_schedule", "standard attention through HBM", Kind::schedule},
      {3, "03_tiled_forward", "attention tile by tile", Kind::schedule},
      {4, "04_causal_tiles", "skip the tiles that the mask hides", Kind::schedule, true},
      {5, "05_ragged_tails", "lengths that blocks do not divide", Kind::schedule, true},
      {6, "06_rescaled_output", "divide once: FlashAttention 1's update into 2's", Kind::schedule},
      {7, "07_loop_exchange", "exchange the loops of FlashAttention 1", Kind::schedule, true},
      {8, "08_backward", "the backward pass by recomputation", Kind::schedule},
      {9, "09_decoding_merge", "merge the parts of split keys", Kind::schedule, true},
      {10, "10_choose_tiling", "choose blocks for the fewest bytes in a given SRAM", Kind::tiling_choice},
      {11, "11_cuda_online_softmax", "CUDA: online softmax of rows", Kind::cuda},
      {12, "12_cuda_flash", "CUDA: a small fp32 flash kernel", Kind::cuda},
  };
  return all;
}

const Exercise* find_exercise(int number) {
  for (const Exercise& e : exercises())
    if (e.number == number) return &e;
  return nullptr;
}

std::string Exercise::file() const { return std::string(name) + (kind == Kind::cuda ? ".cu" : ".cpp"); }
std::string_view Exercise::skeleton() const { return embedded(in_folder(*this, file())); }
std::string_view Exercise::text() const { return embedded(in_folder(*this, text_file())); }

std::vector<std::string> Exercise::hints() const {
  std::vector<std::string> all;
  std::string_view rest = embedded(in_folder(*this, "hints.md"));
  constexpr std::string_view separator = "\n---\n";
  for (;;) {
    const std::size_t end = rest.find(separator);
    std::string hint(rest.substr(0, end));
    while (!hint.empty() && hint.back() == '\n') hint.pop_back();
    all.push_back(std::move(hint));
    if (end == std::string_view::npos) return all;
    rest.remove_prefix(end + separator.size());
  }
}

}  // namespace flashsim::lessons
