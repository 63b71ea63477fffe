#include "simulator/cli/picture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "simulator/cli/errors.h"
#include "simulator/cli/output.h"
#include "simulator/report/svg.h"
#include "simulator/user_schedule/subprocess.h"

namespace flashsim::cli {
namespace {

void write_file(const std::string& path, std::string_view data) {
  AtomicFile file(path);
  file.write(data);
  file.commit();
}

/// Removes the file when it goes out of scope.
struct Temporary {
  std::string path;
  ~Temporary() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

void write_png(const std::string& path, const std::string& svg) {
  write_file(path, "");  // says early where it cannot be written
  const Temporary picture{
      (std::filesystem::temp_directory_path() / fmt::format("flashsim-{}.svg", getpid())).string()};
  write_file(picture.path, svg);
  ProcessLimits limits;
  limits.file_bytes = 64 << 20;
  ProcessEnd end;
  try {
    Process convert(
        {"/usr/bin/env", "rsvg-convert", "--output", std::filesystem::absolute(path).string(), picture.path},
        std::filesystem::temp_directory_path(), limits);
    end = convert.wait(60);
  } catch (const std::system_error& error) {
    end = {127, 0, error.what()};
  }
  if (end.exit_code == 0 && end.signal == 0) return;
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (end.exit_code == 127)
    throw InputError(
        "PNG needs the program rsvg-convert, which is not there: install librsvg2-bin, or name a "
        "file that ends in .svg");
  throw InputError(fmt::format("rsvg-convert {}: {}", end.describe(), end.output));
}

}  // namespace

void write_picture(const std::string& svg, const std::string& path) {
  if (path.ends_with(".png")) {
    write_png(path, svg);
  } else {
    write_file(path, svg);
  }
}

void require_picture(const std::string& option, const std::string& path) {
  if (path.ends_with(".svg") || path.ends_with(".png") || path.ends_with(".csv")) return;
  throw UsageError(
      fmt::format("{} is '{}'; expected a file name that ends in .svg, .png or .csv", option, path));
}

bool wants_numbers(const std::string& path) { return path.ends_with(".csv"); }

void write_numbers(const std::string& csv, const std::string& path) { write_file(path, csv); }

void write_chart(const Chart& chart, const std::string& path) {
  if (wants_numbers(path)) {
    write_numbers(csv(chart), path);
  } else {
    write_picture(svg(chart), path);
  }
}

void write_text_picture(std::string_view text, std::string_view title, const std::string& path) {
  write_picture(svg_of_text(text, title), path);
}

}  // namespace flashsim::cli
