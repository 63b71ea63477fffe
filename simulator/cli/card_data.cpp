#include "simulator/cli/card_data.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "simulator/cli/errors.h"
#include "simulator/cli/output.h"
#include "simulator/compare/card_record.h"
#include "simulator/compare/shipped_records.h"

namespace flashsim::cli {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Empty where the environment does not say where data are kept.
fs::path folder_of_cards() {
  fs::path data = environment("XDG_DATA_HOME");
  if (!data.is_absolute()) {  // the specification: then it does not count
    const std::string home = environment("HOME");
    if (home.empty()) return {};
    data = fs::path(home) / ".local/share";
  }
  return data / "flashsim/cards";
}

Card read_card(const std::string& path, const std::string& remedy) {
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("cannot read the card's data {}; {}", path, remedy));
  try {
    return card_from_json({std::istreambuf_iterator<char>(file), {}});
  } catch (const RecordError& e) {
    throw InputError(fmt::format("{}: {}; {}", path, e.what(), remedy));
  }
}

std::string source_of(const Card& card, const std::string& from) {
  return fmt::format("L2 as measured on {}{}{} ({})", card.device, card.date.empty() ? "" : ", ", card.date,
                     from);
}

}  // namespace

std::string card_path(const std::string& device) {
  const fs::path folder = folder_of_cards();
  if (folder.empty())
    throw InputError(
        "neither XDG_DATA_HOME nor HOME says where the card's data are kept; name a file with --store");
  return (folder / card_file_name(device)).string();
}

void prepare_card_file(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw InputError(fmt::format("cannot make the folder {}: {}. Name a file elsewhere with --store",
                                 folder.string(), error.message()));
  const AtomicFile file(path);  // not committed: nothing appears
}

void store_card(const Card& card, const std::string& path) {
  prepare_card_file(path);
  AtomicFile file(path);
  file.write(to_json(card));
  file.commit();
}

void CardOptions::declare(Options& options) {
  options.text("--card", "FILE", file_,
               "what `flashsim sweep-l2` measured of the card's L2 (default: what it stored for this card)");
  options.flag("--no-card", ignore_, "ignore what was measured of the card's L2");
}

ChosenCard CardOptions::for_device(const std::string& device) const {
  if (ignore_ && !file_.empty())
    throw UsageError("--card and --no-card exclude each other; give one of them");
  if (ignore_) return {{}, "L2 as its size alone says (--no-card)"};
  if (!file_.empty()) {
    const Card card =
        read_card(file_, "write one with `flashsim sweep-l2 --store FILE` on a machine with a GPU");
    return {card, source_of(card, file_)};
  }
  const fs::path folder = folder_of_cards();
  if (!folder.empty()) {
    const std::string path = (folder / card_file_name(device)).string();
    std::error_code error;
    if (fs::exists(path, error)) {
      const Card card = read_card(
          path, "measure again with `flashsim sweep-l2`, remove the file, or ignore it with --no-card");
      return {card, source_of(card, path)};
    }
  }
  const Card shipped = card_from_json(std::string(shipped_records("h200_l2_card.json")));
  if (shipped.device == device) return {shipped, source_of(shipped, "shipped")};
  return {{}, fmt::format("L2 as its size alone says: {} was not measured (`flashsim sweep-l2`)", device)};
}

}  // namespace flashsim::cli
