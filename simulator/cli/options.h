// How a command declares its options. A thin layer over CLI11 (which costs eight seconds in every file that
// includes it): values are parsed by parse.h, so that messages are ours, and the help is laid out here.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "simulator/cli/parse.h"

namespace CLI {
class App;
}

namespace flashsim::cli {

/// What a help page shows of one option.
struct OptionHelp {
  std::string heading, names, label, text;
};

class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  /// Options declared from here on stand below this heading.
  void heading(std::string title) { heading_ = std::move(title); }

  /// `names` as "--causal" or "-o,--output". `parse` gets the text; what it throws ends the command.
  using Parse = std::function<void(const std::string& text)>;
  void value(const std::string& names, const std::string& label, const std::string& help, const Parse& parse);
  void flag(const std::string& names, const std::string& help, std::function<void()> set);
  void flag(const std::string& names, bool& into, const std::string& help) {
    flag(names, help, [&into] { into = true; });
  }

  void text(const std::string& names, const std::string& label, std::string& into, const std::string& help) {
    value(names, label, help, [&into](const std::string& text) { into = text; });
  }

  /// A whole number in [min, max], to an integer or an optional of one.
  template <class T>
  void integer(const std::string& names, T& into, std::int64_t min, std::int64_t max,
               const std::string& help) {
    value(names, "N", help, [&into, name = last_of(names), min, max](const std::string& text) {
      if constexpr (std::is_integral_v<T>) {
        into = static_cast<T>(parse_integer(name, text, min, max));
      } else {
        into = static_cast<typename T::value_type>(parse_integer(name, text, min, max));
      }
    });
  }

  /// One of several words. T is the choices' type or an optional of it.
  template <class T, class E>
  void choice(const std::string& names, T& into, const std::vector<std::pair<std::string, E>>& choices,
              const std::string& help) {
    std::vector<std::string> words;
    std::string label;
    for (const auto& [word, meaning] : choices) {
      words.push_back(word);
      label += (label.empty() ? "" : "|") + word;
    }
    value(names, label, help, [&into, name = last_of(names), choices, words](const std::string& text) {
      into = choices[parse_choice(name, text, words)].second;
    });
  }

  /// A word without a dash, e.g. the lesson's number. At most once a command gives it a meaning.
  void positional(const std::string& label, const std::string& help, const Parse& parse);

  const std::vector<OptionHelp>& help() const { return help_; }

 private:
  static std::string last_of(const std::string& names) { return names.substr(names.rfind(',') + 1); }
  CLI::App& app_;
  std::string heading_ = "Options";
  std::vector<OptionHelp> help_;
};

}  // namespace flashsim::cli
