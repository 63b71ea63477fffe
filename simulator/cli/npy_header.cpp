#include "simulator/cli/npy_header.h"

#include <limits>

namespace flashsim {
namespace {

/// Reads the few kinds of Python literals that can stand in a header, from left to right.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  NpyHeader header() {
    NpyHeader h;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        once(descr, key);
        h.descr = dtype();
      } else if (key == "fortran_order") {
        once(order, key);
        h.fortran_order = boolean();
      } else if (key == "shape") {
        once(shape, key);
        h.shape = tuple();
      } else {
        fail("it has an unknown key '" + key.substr(0, 40) + "'");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) fail("something follows its closing brace");
    if (!descr || !order || !shape)
      fail(std::string("it lacks '") + (!descr ? "descr" : !order ? "fortran_order" : "shape") + "'");
    return h;
  }

 private:
  [[noreturn]] static void fail(const std::string& reason) { throw NpyHeaderError(reason); }

  static void once(bool& seen, const std::string& key) {
    if (seen) fail("it has '" + key + "' twice");
    seen = true;
  }

  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t' || rest_[0] == '\r'))
      rest_.remove_prefix(1);
  }

  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take(std::string_view word) {
    skip_space();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "' is missing");
  }

  std::string string() {
    for (const char quote : {'\'', '"'})
      if (take(quote)) {
        const std::size_t end = rest_.find(quote);
        if (end == std::string_view::npos) fail("a string has no end");
        std::string s(rest_.substr(0, end));
        rest_.remove_prefix(end + 1);
        return s;
      }
    fail("a string is missing");
  }

  bool boolean() {
    if (take(std::string_view("True"))) return true;
    if (take(std::string_view("False"))) return false;
    fail("'fortran_order' is neither True nor False");
  }

  /// A string, or empty for the list (or tuple) of a structured dtype, which is skipped.
  std::string dtype() {
    skip_space();
    if (rest_.empty() || (rest_[0] != '[' && rest_[0] != '(')) return string();
    int depth = 0;
    do {
      skip_space();
      if (rest_.empty()) fail("a bracket is not closed");
      if (rest_[0] == '\'' || rest_[0] == '"') {
        string();
        continue;
      }
      depth += (rest_[0] == '[' || rest_[0] == '(') - (rest_[0] == ']' || rest_[0] == ')');
      rest_.remove_prefix(1);
    } while (depth > 0);
    return {};
  }

  std::int64_t integer() {
    if (take('-')) fail("a length in its shape is negative");
    skip_space();
    if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') fail("its shape is not a tuple of integers");
    std::int64_t value = 0;
    while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') {
      const int digit = rest_[0] - '0';
      if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10)
        fail("a length in its shape does not fit 64 bits");
      value = 10 * value + digit;
      rest_.remove_prefix(1);
    }
    take('L');  // Python 2 marked long integers
    return value;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!take(')')) {
      values.push_back(integer());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view rest_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) { return Parser(text).header(); }

std::string npy_header_text(const std::string& descr, const std::vector<int>& shape) {
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",), }" : "), }");
}

}  // namespace flashsim
