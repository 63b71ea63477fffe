// The form of lesson texts: parsing, filling of gaps, and mistakes in them.
#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

#include "lessons/course/script.h"

using namespace flashsim::course;

namespace {

constexpr const char* text =
    "title: A title\nidea: An idea.\nminutes: 5\n\n"
    "== text First {x}\nOne line\nand {x} more.\n\n  kept {as it is}\n  {x}\n- an item\n  goes on\n- two\n"
    "{table:t}\n== predict q\nHow many?\n== explain Why\nIt is {q}.\n== remember\n- all\n";

Facts some_facts() {
  Facts f;
  f.text("x", "7");
  f.table("t", {{"<a", "b"}, {{"1", "2"}}});
  f.answer("q", 4, "rows", 0.1, "{:.0f}");
  return f;
}

}  // namespace

TEST_CASE("a lesson's text becomes screens and pieces") {
  const Script s = filled(parse_script(text), some_facts());
  CHECK(s.title == "A title");
  CHECK(s.minutes == 5);
  REQUIRE(s.screens.size() == 4);
  CHECK(s.screens[0].title == "First 7");
  REQUIRE(s.screens[0].pieces.size() == 5);
  CHECK(s.screens[0].pieces[0].text == "One line and 7 more.");
  CHECK(s.screens[0].pieces[1].text == "  kept {as it is}\n  7");
  CHECK(s.screens[0].pieces[2].text == "an item goes on");
  CHECK(s.screens[0].pieces[4].kind == Piece::Kind::table);
  CHECK(s.screens[1].kind == ScreenKind::predict);
  CHECK(s.screens[2].pieces[0].text == "It is 4.");
}

TEST_CASE("mistakes in a text are refused") {
  CHECK_THROWS_AS(parse_script(""), std::invalid_argument);
  CHECK_THROWS_AS(parse_script("title: t\nidea: i\nminutes: 1\n== poem X\n"), std::invalid_argument);
  CHECK_THROWS_AS(parse_script("title: t\nidea: i\nminutes: 1\n== text\n"), std::invalid_argument);
  CHECK_THROWS_AS(parse_script("author: me\n== text X\n"), std::invalid_argument);
  CHECK_THROWS_AS(parse_script("no key\n"), std::invalid_argument);
  Facts f = some_facts();
  CHECK_THROWS_AS(filled(parse_script("title: t\nidea: i\nminutes: 1\n== text X\n{y}\n"), f),
                  std::out_of_range);
  CHECK_THROWS_AS(filled(parse_script("title: t\nidea: i\nminutes: 1\n== predict y\nHow?\n"), f),
                  std::out_of_range);
}

TEST_CASE("an answer accepts what lies within its tolerance, and never NaN") {
  const Answer about{200, "us", 0.1, "200"}, exact{144, "rows", 0, "144"};
  CHECK(about.accepts(180));
  CHECK(about.accepts(220));
  CHECK_FALSE(about.accepts(179));
  CHECK_FALSE(about.accepts(221));
  CHECK_FALSE(about.accepts(std::numeric_limits<double>::quiet_NaN()));
  CHECK(exact.accepts(144));
  CHECK_FALSE(exact.accepts(145));
}
