#include "simulator/cli/options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>

#include "simulator/cli/command.h"
#include "simulator/cli/errors.h"

namespace flashsim::cli {

void Options::value(const std::string& names, const std::string& label, const std::string& help,
                    const Parse& parse) {
  app_.add_option_function<std::string>(names, parse);
  help_.push_back({heading_, names, label, help});
}

void Options::flag(const std::string& names, const std::string& help, std::function<void()> set) {
  app_.add_flag_function(names, [set = std::move(set)](std::int64_t) { set(); })->disable_flag_override();
  help_.push_back({heading_, names, "", help});
}

void Options::positional(const std::string& label, const std::string& help, const Parse& parse) {
  app_.add_option_function<std::string>(label, parse);
  help_.push_back({heading_, label, "", help});
}

namespace {

void common_options(Options& options, OutputOptions& into) {
  options.heading("Output");
  options.flag("--json", into.json, "print JSON (schema_version says which form) instead of text");
  options.value("-o,--output", "FILE", "write to FILE, which appears when complete; - is standard output",
                [&into](const std::string& text) {
                  if (text.ends_with(".svg") || text.ends_with(".png"))
                    throw UsageError(fmt::format(
                        "--output is '{}', but it writes what is printed, which is text or JSON; a "
                        "picture is --picture FILE or --chart FILE, where a command has one",
                        text));
                  into.file = text;
                });
  options.flag("--quiet", into.quiet, "no messages but errors");
  options.choice("--color", into.color,
                 std::vector<std::pair<std::string, Color>>{
                     {"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}},
                 "colours; auto: on terminals, unless NO_COLOR is set");
}

// ------------------------------------------------------------------------------------------------------ help

std::string examples_text(const std::vector<std::string>& examples, const Style& style) {
  std::string text = style.bold("Examples") + "\n";
  for (const std::string& example : examples) text += "  " + style.cyan(example) + "\n";
  return text;
}

std::string option_lines(const OptionHelp& option, int width) {
  constexpr int column = 26;
  const std::string left = fmt::format("  {}{}{}", fmt::join(parse_list("", option.names), ", "),
                                       option.label.empty() ? "" : " ", option.label);
  const bool fits = display_width(left) < column - 1;
  return (fits ? fmt::format("{:<{}}", left, column) : left + "\n" + std::string(column, ' ')) +
         indented(wrapped(option.text, width - column), column) + "\n";
}

std::string help_of(const Command& command, const Options& options, const Style& style, int width) {
  std::string text = wrapped(fmt::format("flashsim {}: {}", command.name, command.summary), width) + "\n\n";
  text += examples_text(command.examples, style);
  if (!command.details.empty()) text += "\n" + wrapped(command.details, width) + "\n";
  std::string heading;
  for (const OptionHelp& option : options.help()) {
    if (option.heading != heading) text += "\n" + style.bold(option.heading) + "\n";
    heading = option.heading;
    text += option_lines(option, width);
  }
  return text + option_lines({"", "-h,--help", "", "this text"}, width);
}

std::string help_of_all(const std::vector<Command>& commands, const Style& style, int width) {
  std::string text = "flashsim " FLASHSIM_VERSION ": FlashAttention by running it\n\n";
  std::vector<std::string> examples;
  for (const Command& c : commands)
    if (!c.examples.empty()) examples.push_back(c.examples.front());
  text += examples_text(examples, style) + "\n" + style.bold("Commands") + "\n";
  for (const Command& c : commands) text += option_lines({"", c.name, "", c.summary}, width);
  text += "\n" + style.bold("Options") + "\n";
  text += option_lines({"", "-h,--help", "", "this text; after a command, that command's options"}, width);
  text += option_lines({"", "--version", "", "the version"}, width);
  text +=
      "\n" +
      wrapped(
          "Exit codes: 0 ok, 1 a check failed, 2 usage, 3 input or file, 4 a GPU is needed and absent, 130 "
          "interrupted. Data goes to the standard output, messages to the standard error.",
          width) +
      "\n";
  return text;
}

// ------------------------------------------------------------------------------------------------ parse
// errors

/// CLI11's complaint about unknown words, in our words.
std::string unexpected(const std::string& word, const std::string& where,
                       const std::vector<std::string>& known) {
  const std::string bare = word.substr(0, word.find('='));
  const std::string meant = closest(bare, known);
  const bool option = word.rfind('-', 0) == 0;
  return fmt::format("{} '{}'{}. {}See flashsim{} --help",
                     where.empty() && !option ? "there is no command"
                     : option                 ? "unknown option"
                                              : "unexpected word",
                     bare, where.empty() ? "" : " for flashsim " + where,
                     meant.empty() ? "" : "Did you mean " + meant + "? ", where.empty() ? "" : " " + where);
}

std::vector<std::string> known_names(const Options& options) {
  std::vector<std::string> names = {"-h", "--help"};
  for (const OptionHelp& option : options.help())
    for (std::string& name : parse_list("", option.names)) names.push_back(std::move(name));
  return names;
}

struct Registered {
  const Command* command;
  CLI::App* app;
  std::unique_ptr<Options> options;
  OutputOptions output;
  Run run;
};

}  // namespace

std::vector<OptionHelp> options_of(const Command& command) {
  CLI::App app;
  Options options(app);
  OutputOptions output;
  const Run run = command.setup(options);
  common_options(options, output);
  return options.help();
}

ExitCode run(const std::vector<Command>& commands, int argc, const char* const* argv) {
  CLI::App app;
  app.set_help_flag("-h,--help", "");
  bool version = false;
  app.add_flag("--version", version);
  app.require_subcommand(0, 1);
  std::vector<Registered> registered(commands.size());
  for (std::size_t i = 0; i < commands.size(); ++i) {
    Registered& r = registered[i];
    r.command = &commands[i];
    r.app = app.add_subcommand(commands[i].name);
    r.options = std::make_unique<Options>(*r.app);
    r.run = commands[i].setup(*r.options);
    common_options(*r.options, r.output);
  }
  const auto chosen = [&]() -> Registered* {
    for (Registered& r : registered)
      if (r.app->parsed()) return &r;
    return nullptr;
  };

  std::vector<std::string> names;
  for (const Command& c : commands) names.push_back(c.name);
  names.insert(names.end(), {"--help", "--version"});
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    Output out({});
    const Registered* r = chosen();
    out.print(r != nullptr ? help_of(*r->command, *r->options, out.style(), std::min(out.width(), 100))
                           : help_of_all(commands, out.style(), std::min(out.width(), 100)));
    return ExitCode::ok;
  } catch (const CLI::ExtrasError&) {
    const Registered* r = chosen();
    const std::vector<std::string> extras = app.remaining(true);
    const std::string word = extras.empty() ? "" : extras.front();
    throw UsageError(r != nullptr ? unexpected(word, r->command->name, known_names(*r->options))
                                  : unexpected(word, "", names));
  } catch (const CLI::ArgumentMismatch& error) {
    // "--n: 1 required TEXT missing" or "causal was given a disallowed flag override"
    const std::string what = error.what();
    const std::size_t colon = what.find(':');
    throw UsageError(fmt::format("{}. See flashsim {} --help",
                                 colon == std::string::npos
                                     ? "--" + what.substr(0, what.find(' ')) + " takes no value"
                                     : what.substr(0, colon) + " needs exactly one value",
                                 chosen() != nullptr ? chosen()->command->name : ""));
  } catch (const CLI::ParseError& error) {
    const Registered* r = chosen();
    throw UsageError(
        fmt::format("{}. See flashsim {}--help", error.what(), r != nullptr ? r->command->name + " " : ""));
  }
  if (version) {
    Output({}).print("flashsim " FLASHSIM_VERSION "\n");
    return ExitCode::ok;
  }
  Registered* r = chosen();
  if (r == nullptr) {
    Output out({});
    out.print(help_of_all(commands, out.style(), std::min(out.width(), 100)));
    return ExitCode::ok;
  }
  Output out(r->output);
  const ExitCode code = r->run(out);
  out.finish();
  return code;
}

}  // namespace flashsim::cli
