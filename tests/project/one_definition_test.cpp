// Every type has a name of its own. Two types of one name in one namespace are no error to compiler or linker
// as long as no file sees both, but the linker keeps only one of, say, their two std::vector::push_back, and
// the program then corrupts memory (C++20 [basic.def.odr]).
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

/// Programs of their own, never linked with flashsim: exercises, what they are given, and their solutions.
const char* const separate_programs[] = {"lessons/exercises/0", "lessons/exercises/1",
                                         "lessons/exercises/given/", "lessons/keys/"};

/// The tokens of C++ or CUDA source that matter for its types: identifiers and braces, semicolons, angle
/// brackets,
/// `::`. Comments, literals and preprocessor lines are left out.
std::vector<std::string> tokens_of(const std::string& source) {
  std::vector<std::string> tokens;
  std::size_t i = 0;
  bool line_is_blank = true;
  const auto at = [&](const char* text) {
    return source.compare(i, std::char_traits<char>::length(text), text) == 0;
  };
  const auto skip_past = [&](const std::string& end, std::size_t from) {
    const std::size_t found = source.find(end, from);
    i = found == std::string::npos ? source.size() : found + end.size();
  };
  while (i < source.size()) {
    const char c = source[i];
    const auto is_name = [](char x) { return std::isalnum(static_cast<unsigned char>(x)) != 0 || x == '_'; };
    if (at("//")) {
      skip_past("\n", i), line_is_blank = true;
    } else if (at("/*")) {
      skip_past("*/", i + 2);
    } else if (c == '#' && line_is_blank) {
      while (i < source.size() && source[i] != '\n') i += source[i] == '\\' ? 2 : 1;
    } else if (at("R\"")) {
      const std::size_t open = source.find('(', i);
      skip_past(")" + source.substr(i + 2, open - i - 2) + "\"", open);
    } else if (c == '"' || c == '\'') {
      for (++i; i < source.size() && source[i] != c; ++i) i += source[i] == '\\';
      ++i;
    } else if (is_name(c)) {
      const std::size_t from = i;
      // An apostrophe inside a number separates its digits.
      const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0;
      while (i < source.size() && (is_name(source[i]) || (number && source[i] == '\''))) ++i;
      tokens.push_back(source.substr(from, i - from));
      line_is_blank = false;
    } else {
      line_is_blank = c == '\n' || (line_is_blank && std::isspace(static_cast<unsigned char>(c)) != 0);
      if (at("::")) {
        tokens.emplace_back("::");
        ++i;
      } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
        tokens.emplace_back(1, c);
      }
      ++i;
    }
  }
  return tokens;
}

bool is_type_keyword(const std::string& token) {
  return token == "struct" || token == "class" || token == "enum" || token == "union";
}

/// The type that the tokens before a `{` begin to define; empty if they begin something else, or a
/// specialisation.
std::string type_defined_by(const std::vector<std::string>& head) {
  std::size_t k = 0;
  if (!head.empty() && head[0] == "template") {
    int depth = 0;
    for (k = 1; k < head.size(); ++k) {
      depth += head[k] == "<" ? 1 : head[k] == ">" ? -1 : 0;
      if (depth == 0) break;
    }
    ++k;
  }
  if (k >= head.size() || !is_type_keyword(head[k])) return "";
  while (k < head.size() &&
         (is_type_keyword(head[k]) || head[k] == "alignas" || head[k] == "[" || head[k] == "]"))
    ++k;
  if (k >= head.size()) return "";
  // A function that returns a struct has parentheses, a specialisation angle brackets, a member type `::`.
  if (k + 1 < head.size() && head[k + 1] != ":" && head[k + 1] != "final") return "";
  return head[k];
}

/// The types that `source` defines at namespace scope, by full name; those in unnamed namespaces are the
/// file's own and left out.
std::vector<std::string> types_of(const std::string& source) {
  struct Scope {
    bool is_namespace;
    std::string name;  // empty: unnamed, or no namespace
  };
  std::vector<Scope> scopes;
  std::vector<std::string> head, types;
  for (const std::string& token : tokens_of(source)) {
    if (token == "{") {
      const bool is_namespace =
          !head.empty() &&
          (head[0] == "namespace" || (head[0] == "inline" && head.size() > 1 && head[1] == "namespace"));
      std::string name;
      if (is_namespace) {
        for (const std::string& part : head)
          if (part != "namespace" && part != "inline") name += part;
      } else if (std::all_of(scopes.begin(), scopes.end(),
                             [](const Scope& s) { return s.is_namespace && !s.name.empty(); })) {
        const std::string type = type_defined_by(head);
        std::string full;
        for (const Scope& s : scopes) full += s.name + "::";
        if (!type.empty()) types.push_back(full + type);
      }
      scopes.push_back({is_namespace, name});
      head.clear();
    } else if (token == "}") {
      if (!scopes.empty()) scopes.pop_back();
      head.clear();
    } else if (token == ";") {
      head.clear();
    } else {
      head.push_back(token);
    }
  }
  return types;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("types are found by full name") {
  const std::string source = R"code(
    // struct Comment {};
    #define MACRO struct Macro {
    namespace a::b {
    struct Plain { struct Inner {}; };
    class Derived final : public Plain { int x = 1'000; };
    enum class Kind : unsigned { one, two };
    template <typename T, int N> struct Generic { };
    template <> struct Generic<int, 3> { };
    struct Declared;
    struct Plain function() { struct Local {}; return {}; }
    const char* text = "struct Text {";
    namespace { struct Own {}; }
    }  // namespace a::b
    struct Outside {};)code";
  CHECK(types_of(source) ==
        std::vector<std::string>{"a::b::Plain", "a::b::Derived", "a::b::Kind", "a::b::Generic", "Outside"});
}

TEST_CASE("no two files of the program define a type of the same name") {
  namespace fs = std::filesystem;
  std::map<std::string, std::set<std::string>> files_of;
  const fs::path root = FLASHSIM_SOURCE_DIR;
  for (const char* folder : {"cpu_reference", "simulator", "gpu_kernels", "lessons"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      if (std::any_of(std::begin(separate_programs), std::end(separate_programs),
                      [&](const std::string& prefix) { return file.rfind(prefix, 0) == 0; }))
        continue;
      for (const std::string& type : types_of(contents(entry.path()))) files_of[type].insert(file);
    }
  }
  CHECK(files_of.size() > 200);  // the files were found and read
  for (const auto& [type, files] : files_of) {
    std::string where;
    for (const std::string& file : files) where += " " + file;
    CHECK_MESSAGE(files.size() == 1, type << " is defined in" << where);
  }
}
