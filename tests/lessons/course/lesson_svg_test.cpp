// Charts as SVG and CSV: what is in them, and what may not be.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "lessons/course/lesson.h"
#include "simulator/report/svg.h"

using namespace flashsim;

namespace {

std::size_t occurrences(const std::string& text, const std::string& of) {
  std::size_t n = 0;
  for (std::size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++n;
  return n;
}

Chart lines() {
  Chart c;
  c.title = "A < B & C";
  c.x_label = "n";
  c.y_label = "bytes";
  c.log_x = c.log_y = true;
  c.source = "a test";
  c.series.push_back({"one, two", {256, 512, 1024}, {1e6, 1e8, std::numeric_limits<double>::quiet_NaN()}});
  return c;
}

}  // namespace

TEST_CASE("a line chart: a mark for each point that can be shown, text escaped") {
  const std::string picture = svg(lines());
  CHECK(picture.starts_with("<svg xmlns"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(occurrences(picture, "<circle") == 2);
  CHECK(picture.find("A &lt; B &amp; C") != std::string::npos);
  CHECK(picture.find("nan") == std::string::npos);
  CHECK(picture.find("1 MB") != std::string::npos);
}

TEST_CASE("larger values stand higher, by the logarithm") {
  Chart c = lines();
  c.series[0].y = {1, 10, 100};
  const std::string picture = svg(c);
  std::vector<double> y;
  for (std::size_t at = picture.find("cy=\""); at != std::string::npos; at = picture.find("cy=\"", at + 1))
    y.push_back(std::stod(picture.substr(at + 4)));
  REQUIRE(y.size() == 3);
  CHECK(y[0] > y[1]);
  CHECK(y[0] - y[1] == doctest::Approx(y[1] - y[2]).epsilon(0.01));
}

TEST_CASE("bars: heights in proportion") {
  Chart c;
  c.kind = Chart::Kind::bars;
  c.categories = {"a", "b"};
  c.series.push_back({"x", {}, {1, 3}});
  const std::string picture = svg(c);
  std::vector<double> heights;
  for (std::size_t at = picture.find("height=\""); at != std::string::npos;
       at = picture.find("height=\"", at + 1))
    if (std::isdigit(static_cast<unsigned char>(picture[at + 8])) != 0 &&
        picture.find("width=\"100%\"", at - 30) > at)
      heights.push_back(std::stod(picture.substr(at + 8)));
  REQUIRE(heights.size() >= 2);
  CHECK(heights.back() == doctest::Approx(3 * heights[heights.size() - 2]).epsilon(0.01));
}

TEST_CASE("CSV keeps what SVG leaves out, and quotes commas") {
  CHECK(csv(lines()) == "n,\"one, two (bytes)\"\n256,1000000\n512,100000000\n1024,\n");
  CHECK(csv_line({"a\"b", "c"}) == "\"a\"\"b\",c\n");
}

TEST_CASE("text frames: lines as they are, without ANSI sequences") {
  const std::string picture = svg_of_text("\x1b[1mQ | K\x1b[0m\n  <tile>\n", "Step 3");
  CHECK(picture.find("Q | K</text>") != std::string::npos);
  CHECK(picture.find("  &lt;tile&gt;</text>") != std::string::npos);
  CHECK(picture.find('\x1b') == std::string::npos);
}

TEST_CASE("every lesson's charts can be drawn and hold points") {
  for (const course::Lesson& lesson : course::lessons()) {
    const course::Facts facts = lesson.run(lesson.defaults);
    CAPTURE(lesson.number);
    CHECK_FALSE(facts.charts().empty());
    for (const Chart& chart : facts.charts()) {
      CAPTURE(chart.id);
      const std::string picture = svg(chart);
      CHECK(picture.find("nan") == std::string::npos);
      CHECK(picture.find("inf") == std::string::npos);
      CHECK(occurrences(csv(chart), "\n") >= 3);
    }
  }
}

TEST_CASE("bars of bytes are labelled with units, without zeros that say nothing") {
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.id = "bytes";
  chart.x_label = "algorithm";
  chart.y_label = "bytes";
  chart.source = "a test";
  chart.categories = {"a", "b", "c", "d", "e", "f"};
  chart.series = {{"read", {}, {16777216, 4456448, 270336, 5e9, 0, 1}}, {"written", {}, {1, 1, 1, 1, 1, 1}}};
  const std::string picture = svg(chart);
  for (const char* label : {">17 MB<", ">4.5 MB<", ">270 kB<", ">5 GB<"})
    CHECK_MESSAGE(picture.find(label) != std::string::npos, label);
}
