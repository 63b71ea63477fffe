// The stepper without a terminal: frames as text and JSON, and what keys do.
// Golden frames lie in golden/; `cli_step --update-golden` writes them anew, to be read before they are
// committed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cpu_reference/random.h"
#include "simulator/cli/errors.h"
#include "simulator/cli/step_frame.h"
#include "simulator/cli/step_json.h"
#include "simulator/cli/step_session.h"
#include "simulator/executors/recorder.h"
#include "simulator/schedules/schedules.h"

using namespace flashsim;
using namespace flashsim::cli;

namespace {

StepPass pass_of(const char* name, const Problem& p, int block, bool backward = false) {
  const Algorithm& a = *find_algorithm(name);
  RecordRequest r;
  r.problem = p;
  r.tiling = a.tiling(p);
  r.tiling.block_q = r.tiling.block_k = block;
  r.schedule = program_of(backward ? a.backward : a.forward, p, r.tiling);
  if (backward) r.before = program_of(a.forward, p, r.tiling);
  r.standard = program_of(backward ? standard_backward : standard_forward, p, r.tiling);
  r.backward = backward;
  r.capacity = 192 * 1024;
  const auto random = [&](std::uint32_t id, int heads, int rows) {
    return random_tensor(Distribution::normal, 0, id, elements(p, heads, rows, p.head_dim));
  };
  const auto q = random(tensor_id::q, p.heads_q, p.seqlen_q),
             k = random(tensor_id::k, p.heads_kv, p.seqlen_k),
             v = random(tensor_id::v, p.heads_kv, p.seqlen_k),
             d_o = random(tensor_id::d_o, p.heads_q, p.seqlen_q);
  r.q = &q;
  r.k = &k;
  r.v = &v;
  r.d_o = &d_o;
  return {record(r), {std::string(a.name), std::string(a.title), "NVIDIA A100 80 GB SXM"}};
}

Problem square(int n, int d, bool causal = false) {
  Problem p;
  p.seqlen_q = p.seqlen_k = n;
  p.head_dim = d;
  p.causal = causal;
  return p;
}

bool asked_to_update() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string arguments((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return arguments.find("--update-golden") != std::string::npos;
}

/// Text apart from decimal fractions must be equal; those may differ by what another order of summation does
/// to fp32 sums, which is below 1e-3 of them or of 1. Padding is no part of the text.
bool same_frame(const std::string& a, const std::string& b) {
  std::istringstream in_a(a), in_b(b);
  for (std::string x, y;;) {
    const bool more_a = static_cast<bool>(in_a >> x), more_b = static_cast<bool>(in_b >> y);
    if (more_a != more_b) return false;
    if (!more_a) return true;
    if (x == y) continue;
    char *end_x = nullptr, *end_y = nullptr;
    const double u = std::strtod(x.c_str(), &end_x), v = std::strtod(y.c_str(), &end_y);
    const bool fractions = x.find('.') != std::string::npos && y.find('.') != std::string::npos &&
                           end_x != x.c_str() && std::string(end_x) == end_y;
    if (!fractions || !(std::abs(u - v) <= 1e-3 * std::max(1., std::abs(v)))) return false;
  }
}

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(FLASHSIM_GOLDEN) + "/" + name + ".txt";
  if (asked_to_update()) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), "no " << path << "; make it with --update-golden");
  const std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK_MESSAGE(same_frame(text, golden), name << " is now\n" << text << "\nand was\n" << golden);
}

StepView view(int width, bool unicode) {
  StepView v;
  v.width = width;
  v.unicode = unicode;
  return v;
}

KeyPress character(char c) { return {Key::character, c}; }

void type(StepSession& s, const std::string& text) {
  for (const char c : text) s.press(c == '\n' ? KeyPress{Key::enter, 0} : character(c));
}

std::string screen(const StepSession& s, TerminalSize size = {80, 24}) {
  return s.screen(size, Style(false), true);
}

StepSession session(StepPass pass) {
  return StepSession(std::move(pass), 0, {}, [] { return pass_of("fa2", square(128, 32), 32, true); });
}

}  // namespace

TEST_CASE("golden frames") {
  const StepPass fa2 = pass_of("fa2", square(256, 128), 64);
  check_golden("fa2_step_1_80", render_frame(fa2.recording, fa2.title, 0, view(80, true)));
  check_golden("fa2_step_7_80_ascii", render_frame(fa2.recording, fa2.title, 6, view(80, false)));
  check_golden("fa2_step_5_200", render_frame(fa2.recording, fa2.title, 4, view(200, true)));
  const StepPass causal = pass_of("fa1", square(100, 64, true), 32);
  check_golden("fa1_causal_step_9_120", render_frame(causal.recording, causal.title, 8, view(120, true)));
  const StepPass fa3 = pass_of("fa3", square(256, 64), 64);
  check_golden("fa3_producer_80", render_frame(fa3.recording, fa3.title, 0, view(80, true)));
  check_golden("fa3_consumer_80", render_frame(fa3.recording, fa3.title, 2, view(80, true)));
  const StepPass backward = pass_of("fa2", square(128, 64), 64, true);
  check_golden("fa2_backward_step_4_80", render_frame(backward.recording, backward.title, 3, view(80, true)));
  const StepPass standard = pass_of("standard", square(128, 64), 64);
  check_golden("standard_softmax_80", render_frame(standard.recording, standard.title, 4, view(80, true)));
  const StepPass large = pass_of("fa2", square(1024, 16), 16);
  check_golden("fa2_large_map_80", render_frame(large.recording, large.title, 1500, view(80, true)));
}

TEST_CASE("a heading longer than a line is wrapped, and nothing of it is lost") {
  Problem p = square(128, 64, true);
  p.heads_q = 4;
  p.heads_kv = 2;
  p.window_left = 100;
  p.dropout_p = 0.1f;
  const StepPass pass = pass_of("fa2", p, 64);
  check_golden("fa2_long_heading_80", render_frame(pass.recording, pass.title, 0, view(80, true)));
  for (const int width : {40, 80, 200}) {
    std::string text = render_frame(pass.recording, pass.title, 0, view(width, false));
    text = text.substr(0, text.find("\n\n"));
    std::replace(text.begin(), text.end(), '\n', ' ');
    CAPTURE(text);
    for (const char* part : {"heads 4/2", "seqlen 128", "causal", "window", "dropout", "head 0",
                             "tiles 64 x 64", "NVIDIA A100 80 GB SXM"})
      CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("every line fits its width, in every layout") {
  for (const char* name : {"standard", "fa1", "fa2", "fa3", "chunked"}) {
    const StepPass pass = pass_of(name, square(96, 32, true), 32);
    for (const int width : {40, 60, 80, 100, 119, 120, 169, 170, 200, 300})
      for (const int height : {0, 10, 23, 29, 49})
        for (const bool unicode : {true, false})
          for (std::size_t k = 0; k < pass.recording.frames.size(); ++k) {
            StepView v = view(width, unicode);
            v.height = height;
            std::istringstream lines(render_frame(pass.recording, pass.title, k, v));
            for (std::string line; std::getline(lines, line);) {
              CAPTURE(line);
              const bool ascii =
                  std::all_of(line.begin(), line.end(), [](char c) { return (c & 0x80) == 0; });
              REQUIRE((display_width(line) <= width && (unicode || ascii)));
            }
          }
  }
}

TEST_CASE("an interactive frame fits 80 x 24 and larger windows") {
  for (const char* name : {"standard", "fa1", "fa2", "chunked"}) {
    Problem p = square(256, 128);
    p.heads_q = p.heads_kv = 2;
    p.window_left = p.window_right = 200;  // for a heading of two lines
    const StepPass pass = pass_of(name, p, 64);
    for (const TerminalSize size : {TerminalSize{80, 24}, TerminalSize{100, 30}, TerminalSize{200, 50}})
      for (std::size_t k = 0; k < pass.recording.frames.size(); k += 3) {
        StepView v = view(size.columns, true);
        v.height = size.rows - 1;
        const std::string text = render_frame(pass.recording, pass.title, k, v);
        CAPTURE(text);
        CHECK(std::count(text.begin(), text.end(), '\n') <= size.rows - 1);
      }
  }
}

TEST_CASE("colours add sequences and nothing else") {
  const StepPass pass = pass_of("fa2", square(96, 32, true), 32);
  StepView plain = view(100, true), colored = plain;
  colored.style = Style(true);
  std::string text = render_frame(pass.recording, pass.title, 3, colored);
  CHECK(text.find("\x1b[") != std::string::npos);
  for (std::size_t at; (at = text.find('\x1b')) != std::string::npos;)
    text.erase(at, text.find('m', at) - at + 1);
  std::istringstream a(text), b(render_frame(pass.recording, pass.title, 3, plain));
  for (std::string x, y; std::getline(b, y);) {
    REQUIRE(std::getline(a, x));
    while (!x.empty() && x.back() == ' ') x.pop_back();
    CHECK(x == y);
  }
}

TEST_CASE("back shows the very frame that was there") {
  StepSession s = session(pass_of("fa2", square(128, 32), 32));
  std::vector<std::string> seen;
  for (int k = 0; k < 12; ++k) {
    seen.push_back(screen(s));
    CHECK(s.press(k % 2 == 0 ? character('n') : character(' ')));
  }
  for (int k = 12; k-- > 0;) {
    s.press(k % 2 == 0 ? character('b') : KeyPress{Key::left, 0});
    CHECK(screen(s) == seen[k]);
  }
  s.press(character('b'));  // nothing lies before the first step
  CHECK(screen(s).find("this is the first step") != std::string::npos);
}

TEST_CASE("keys: ends, jump, step, rows, backward, help, quit") {
  StepSession s = session(pass_of("fa2", square(128, 32, true), 32));
  const std::string first = screen(s);
  s.press({Key::end, 0});
  CHECK(screen(s).find("step 14 of 14") != std::string::npos);
  s.press(character('g'));
  CHECK(screen(s) == first);
  type(s, "j2,1\n");
  CHECK(screen(s).find("Tile (i, j) = (2, 1)") != std::string::npos);
  type(s, "j0,3\n");
  CHECK(screen(s).find("never visited") != std::string::npos);
  CHECK(screen(s).find("Tile (i, j) = (2, 1)") != std::string::npos);
  type(s, "j9,9\n");
  CHECK(screen(s).find("expected a whole number from 0 to 3") != std::string::npos);
  type(s, "jx\n");
  CHECK(screen(s).find("expected a whole number") != std::string::npos);
  type(s, "r70,71\n");
  CHECK(screen(s).find("     70 ") != std::string::npos);
  CHECK(screen(s).find("     71 ") != std::string::npos);
  type(s, "r\n");
  CHECK(screen(s).find("     71 ") == std::string::npos);
  type(s, "s3\n");
  CHECK(screen(s).find("step 3 of 14") != std::string::npos);
  s.press(character('j'));
  type(s, "12");
  s.press({Key::backspace, 0});
  s.press({Key::escape, 0});
  CHECK(screen(s).find("step 3 of 14") != std::string::npos);
  s.press(character('t'));
  CHECK(screen(s).find("backward") != std::string::npos);
  CHECK(screen(s).find("step 1 of ") != std::string::npos);
  s.press(character('t'));
  CHECK(screen(s).find("step 3 of 14") != std::string::npos);
  s.press(character('?'));
  CHECK(screen(s).find("Any key goes back") != std::string::npos);
  s.press(character('x'));
  CHECK(screen(s).find("step 3 of 14") != std::string::npos);
  CHECK_FALSE(s.press(character('q')));
  CHECK_FALSE(s.press({Key::closed, 0}));
}

TEST_CASE("help fits 80 x 24, and is wrapped in narrower windows") {
  StepSession s = session(pass_of("fa2", square(128, 32), 32));
  s.press(character('?'));
  for (const int columns : {40, 80, 200}) {
    std::istringstream lines(s.screen({columns, 24}, Style(false), true));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      CHECK_MESSAGE(display_width(line) <= std::min(columns, 80), line);
    if (columns >= 80) CHECK(count <= 24);
  }
  CHECK(screen(s).find("The oracle is naive attention") != std::string::npos);
}

TEST_CASE("a message of two lines is shown whole, in the room of the frame") {
  const std::string reason(100, 'x');
  StepSession s(pass_of("chunked", square(64, 32), 32), 0, {},
                [&]() -> StepPass { throw UsageError("no backward pass: " + reason.substr(0, 70)); });
  s.press(character('t'));
  const std::string text = screen(s, {80, 24});
  CHECK(text.find("no backward pass:\n" + reason.substr(0, 70)) != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 23);
}

TEST_CASE("a pass that does not exist is told, and the session goes on") {
  StepSession s(pass_of("chunked", square(64, 32), 32), 0, {},
                []() -> StepPass { throw UsageError("chunked has no backward pass of its own"); });
  s.press(character('t'));
  CHECK(screen(s).find("no backward pass") != std::string::npos);
  CHECK(s.press(character('n')));
  CHECK(screen(s).find("step 2 of") != std::string::npos);
}

TEST_CASE("rows and tiles as text") {
  CHECK(parse_rows("3,0,5-7", 8) == std::vector<int>{3, 0, 5, 6, 7});
  CHECK_THROWS_AS(parse_rows("8", 8), UsageError);
  CHECK_THROWS_AS(parse_rows("5-3", 8), UsageError);
  CHECK_THROWS_AS(parse_rows("-1", 8), UsageError);
  CHECK_THROWS_AS(parse_rows("1,,2", 8), UsageError);
  CHECK_THROWS_AS(parse_rows("a", 8), UsageError);
  const StepPass pass = pass_of("fa2", square(64, 32), 32);
  CHECK(parse_tile("1,0", pass.recording) == std::pair{1, 0});
  CHECK(parse_tile("1", pass.recording) == std::pair{1, -1});
  CHECK_THROWS_AS(parse_tile("1,0,0", pass.recording), UsageError);
  CHECK_THROWS_AS(parse_tile("2,0", pass.recording), UsageError);
}

TEST_CASE("a frame as JSON") {
  const StepPass pass = pass_of("fa2", square(64, 32), 32);
  const Recording& r = pass.recording;
  const Json first = json_of_frame(r, 0, {5});
  CHECK(first["step"] == 1);
  CHECK(first["position"]["tile"]["i"] == 0);
  CHECK(first["rows"].size() == 1);
  CHECK(first["rows"][0]["m_before"] == "-inf");
  CHECK(first["rows"][0]["correction"] == 0);
  CHECK(first["requested_bytes"]["total"] == r.requested(r.frames[0]));
  std::int64_t by_tensor = 0;
  for (const Json& x : first["requested_bytes"]["by_tensor"]) by_tensor += x["bytes"].get<std::int64_t>();
  CHECK(by_tensor == r.requested(r.frames[0]));
  const Json last = json_of_frame(r, r.frames.size() - 1, {});
  CHECK(last["position"]["tile"].is_null());
  CHECK(last["outputs"][0]["rows_finished"] == 64);
  CHECK(Json::parse(last.dump()) == last);
}
