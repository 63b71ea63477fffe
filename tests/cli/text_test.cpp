// The pieces that commands are put together from: parsing, numbers as text, tables.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulator/cli/command.h"
#include "simulator/cli/errors.h"
#include "simulator/cli/parse.h"
#include "simulator/cli/style.h"
#include "simulator/cli/table.h"
#include "simulator/report/units.h"

using namespace flashsim;
using namespace flashsim::cli;

TEST_CASE("whole numbers") {
  CHECK(parse_integer("--n", "0", 0, 10) == 0);
  CHECK(parse_integer("--n", "-3", -3, 10) == -3);
  CHECK(parse_integer("--n", "16K", 1, 1 << 20) == 16384);
  CHECK(parse_integer("--n", "2m", 1, 1 << 24) == 2097152);
  CHECK(parse_integer("--n", "9223372036854775807", 0, INT64_MAX) == INT64_MAX);
  for (const char* text : {"", " 1", "1 ", "+1", "0x10", "1e3", "K", "1KK", "1G", "--1", "one"})
    CHECK_THROWS_AS(parse_integer("--n", text, -100, INT64_MAX), UsageError);
  for (const char* text : {"11", "-1", "9223372036854775808", "9223372036854775807K", "1K"})
    CHECK_THROWS_AS(parse_integer("--n", text, 0, 10), UsageError);
}

TEST_CASE("numbers and lists") {
  CHECK(parse_number("--p", "0.25", 0, 1) == 0.25);
  CHECK(parse_number("--p", "1e-3", 0, 1) == 0.001);
  for (const char* text : {"", "nan", "inf", "-0.5", "2", "1,5", "0.5x"})
    CHECK_THROWS_AS(parse_number("--p", text, 0, 1), UsageError);
  CHECK(parse_numbers("--x", "1,-2.5,3e2") == std::vector<double>{1, -2.5, 300});
  CHECK(parse_list("--x", "a") == std::vector<std::string>{"a"});
  for (const char* text : {"", ",", "a,", ",a", "a,,b"}) CHECK_THROWS_AS(parse_list("--x", text), UsageError);
  CHECK(parse_choice("--x", "b", {"a", "b"}) == 1);
  CHECK_THROWS_AS(parse_choice("--x", "c", {"a", "b"}), UsageError);
}

TEST_CASE("no two options of a command share a name, dashes aside") {
  // CLI11 from 2.2 on keeps options in a file's format, too, where -q and --q are one name: it throws at the
  // start of the program. 2.1 does not, so this test does it for both.
  REQUIRE(commands().size() >= 4);
  for (const Command& command : commands()) {
    std::map<std::string, std::string> owner = {{"h", "-h,--help"}, {"help", "-h,--help"}};
    const std::vector<OptionHelp> options = options_of(command);
    CHECK(options.size() >= 4);  // those of every command
    for (const OptionHelp& option : options) {
      std::set<std::string> own;  // -n,--n of one option is one name
      for (const std::string& name : parse_list("", option.names))
        own.insert(name.substr(std::min(name.find_first_not_of('-'), name.size())));
      for (const std::string& name : own) {
        INFO("flashsim ", command.name, ": ", option.names, " and ", owner[name], " share the name ", name);
        CHECK(owner[name].empty());
        owner[name] = option.names;
      }
    }
  }
}

TEST_CASE("what was probably meant") {
  CHECK(closest("trafic", {"step", "traffic"}) == "traffic");
  CHECK(closest("--blok", {"--block", "--batch"}) == "--block");
  CHECK(closest("xyz", {"step", "traffic"}).empty());
  CHECK(closest("a", {"b"}).empty());
}

TEST_CASE("sizes and counts as text") {
  CHECK(decimal_bytes(0) == "0 B");
  CHECK(decimal_bytes(999) == "999 B");
  CHECK(decimal_bytes(1000) == "1 kB");
  CHECK(decimal_bytes(138412032) == "138.4 MB");
  CHECK(decimal_bytes(40.27e9) == "40.27 GB");
  CHECK(binary_bytes(73728) == "72 KiB");
  CHECK(binary_bytes(1536) == "1.500 KiB");
  CHECK(count(68157440) == "68.16 M");
  CHECK(count(7) == "7");
  CHECK(seconds(2.214e-3) == "2.214 ms");
  CHECK(seconds(15.8e-6) == "15.80 us");
  CHECK(grouped(0) == "0");
  CHECK(grouped(1048576) == "1,048,576");
  CHECK(grouped(-1000) == "-1,000");
  CHECK(grouped(-100) == "-100");
}

TEST_CASE("width and wrapping") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("\xc3\xa9\xe2\x88\x9e") == 2);
  CHECK(display_width(Style(true).red("abc")) == 3);
  CHECK(Style(false).red("abc") == "abc");
  CHECK(wrapped("one two three", 7) == "one two\nthree");
  CHECK(wrapped("unbreakable", 4) == "unbreakable");
  CHECK(wrapped("takes 16 KiB, or", 9) == "takes\n16 KiB,\nor");
  CHECK(wrapped("in 16 Bytes", 5) == "in 16\nBytes");
  CHECK(indented("a\nb", 2) == "a\n  b");
}

TEST_CASE("tables give up their least important columns first, then cut the longest text") {
  Table table({{"name", Align::left}, {"first"}, {"second", Align::right, 1}, {"third", Align::right, 2}});
  table.row({"a rather long name", "1", "2", "3"});
  table.row({"b", "10"});
  const Style plain;
  CHECK(table.text(plain, 80) ==
        "name                first  second  third\n"
        "a rather long name      1       2      3\n"
        "b                      10\n");
  CHECK(table.text(plain, 39).find("third") == std::string::npos);
  CHECK(table.text(plain, 39).find("second") != std::string::npos);
  CHECK(table.text(plain, 26).find("second") == std::string::npos);
  CHECK(table.text(plain, 20) ==
        "name           first\n"
        "a rather lon~      1\n"
        "b                 10\n");
}
