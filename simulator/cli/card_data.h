// Which data of a card's L2 the simulation uses, and where `flashsim sweep-l2` keeps them.
#pragma once

#include <optional>
#include <string>

#include "simulator/cli/options.h"
#include "simulator/executors/l2/card.h"

namespace flashsim::cli {

/// $XDG_DATA_HOME/flashsim/cards (or ~/.local/share/flashsim/cards), and in it the device's file. Throws
/// InputError where neither XDG_DATA_HOME nor HOME says where that is.
std::string card_path(const std::string& device);

/// Makes the folders above the file. Throws InputError where it could not be written later.
void prepare_card_file(const std::string& path);
/// Writes a card's data, with the folders above the file. Throws InputError.
void store_card(const Card& card, const std::string& path);

struct ChosenCard {
  std::optional<Card> card;
  std::string source;  ///< for a person: whose data, of when, from where; or why there are none
};

/// --card FILE and --no-card.
class CardOptions {
 public:
  void declare(Options& options);
  /// For the device with that name in the driver's words: the file asked for; else what was measured here,
  /// else what comes with flashsim, else nothing. Throws InputError where a file cannot be read or holds
  /// something else, UsageError where both options are given.
  ChosenCard for_device(const std::string& device) const;

 private:
  std::string file_;
  bool ignore_ = false;
};

}  // namespace flashsim::cli
