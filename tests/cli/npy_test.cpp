#include "simulator/cli/npy.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "cpu_reference/rounding.h"
#include "simulator/cli/npy_header.h"

using namespace flashsim;
namespace fs = std::filesystem;

namespace {

/// A folder of its own, removed in the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "flashsim-npy-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  int files() const { return static_cast<int>(std::distance(fs::directory_iterator(path_), {})); }

 private:
  fs::path path_;
};

std::string bytes_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A file as the format's description says, byte by byte.
std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string s = "\x93NUMPY";
  s += static_cast<char>(version);
  s += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) s += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return s + header + data;
}

std::string dict(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

template <class Bits>
std::string element(Bits bits, bool big_endian) {
  std::string s;
  for (std::size_t i = 0; i < sizeof bits; ++i)
    s += static_cast<char>(bits >> (8 * (big_endian ? sizeof bits - 1 - i : i)) & 0xff);
  return s;
}

std::string elements_of(const std::vector<double>& values, char type, bool big_endian) {
  std::string s;
  for (const double x : values)
    s += type == '2'   ? element(encode_fp16(x), big_endian)
         : type == '4' ? element(std::bit_cast<std::uint32_t>(static_cast<float>(x)), big_endian)
                       : element(std::bit_cast<std::uint64_t>(x), big_endian);
  return s;
}

/// What reading a file of these bytes complains about; empty if it does not.
std::string complaint(const Folder& folder, const std::string& bytes) {
  put(folder / "x.npy", bytes);
  try {
    read_npy(folder / "x.npy");
  } catch (const NpyError& e) {
    return e.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::vector<double> kSix = {1, -2, 0.5, 3.25, -0.0, 65504};

}  // namespace

TEST_CASE("every dtype, byte order and format version") {
  const Folder folder;
  for (const char type : {'2', '4', '8'})
    for (const std::string order : {"<", ">", "=", "|", ""})
      for (const int version : {1, 2, 3}) {
        const bool big = order == ">" || (order != "<" && std::endian::native == std::endian::big);
        put(folder / "x.npy", npy(dict(order + "f" + type, "(2, 3)"), elements_of(kSix, type, big), version));
        const NpyArray x = read_npy(folder / "x.npy");
        CHECK(x.shape == std::vector<int>{2, 3});
        CHECK(x.dtype == (type == '2' ? Dtype::fp16 : type == '4' ? Dtype::fp32 : Dtype::fp64));
        CHECK(x.values == kSix);
        CHECK(std::signbit(x.values[4]));
      }
}

TEST_CASE("Fortran order is turned into C order") {
  const Folder folder;
  const std::vector<int> shape = {2, 3, 4, 5};
  // The value at (a, b, c, d) is its position in C order; the file has the first index fastest.
  std::vector<double> file, expected;
  for (int d = 0; d < 5; ++d)
    for (int c = 0; c < 4; ++c)
      for (int b = 0; b < 3; ++b)
        for (int a = 0; a < 2; ++a) file.push_back(((a * 3 + b) * 4 + c) * 5 + d);
  for (int i = 0; i < 120; ++i) expected.push_back(i);
  put(folder / "x.npy", npy(dict("<f4", "(2, 3, 4, 5)", "True"), elements_of(file, '4', false)));
  CHECK(read_npy(folder / "x.npy").values == expected);
  CHECK(read_npy(folder / "x.npy").shape == shape);
}

TEST_CASE("NaN and infinities are values") {
  const Folder folder;
  const double inf = std::numeric_limits<double>::infinity();
  for (const char type : {'2', '4', '8'}) {
    put(folder / "x.npy",
        npy(dict(std::string("<f") + type, "(1, 3)"), elements_of({inf, -inf, std::nan("")}, type, false)));
    const NpyArray x = read_npy(folder / "x.npy");
    CHECK(x.values[0] == inf);
    CHECK(x.values[1] == -inf);
    CHECK(std::isnan(x.values[2]));
  }
}

TEST_CASE("what is written is what NumPy writes, and reads back") {
  const Folder folder;
  write_npy(folder / "x.npy", {2, 3}, kSix, Dtype::fp16);
  std::string header = "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(128 - 10 - 1, ' ');  // magic, version and length take 10 bytes; the data starts at byte 128
  CHECK(bytes_in(folder / "x.npy") == npy(header + "\n", elements_of(kSix, '2', false)));

  std::vector<double> many(70000);  // more than one piece of the reader
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i) / 7;
  for (const Dtype t : {Dtype::fp16, Dtype::fp32, Dtype::fp64}) {
    write_npy(folder / "y.npy", {7, 100, 100}, many, t);
    const NpyArray y = read_npy(folder / "y.npy");
    CHECK(y.dtype == t);
    CHECK(y.shape == std::vector<int>{7, 100, 100});
    std::vector<double> expected = many;
    round_to(t, expected.data(), expected.size());
    CHECK(y.values == expected);
  }
  CHECK(npy_header_text("<f4", {5}) == "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }");
}

TEST_CASE("headers in other spellings") {
  const std::string expected = "<f4";
  for (const std::string text :
       {"{'shape': (2,3),'descr':'<f4','fortran_order':True}",
        "{ \"descr\" : \"<f4\" ,\n\"fortran_order\": True, \"shape\": ( 2 , 3 , ) , }  \n",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 3L)}"}) {
    const NpyHeader h = parse_npy_header(text);
    CHECK(h.descr == expected);
    CHECK(h.fortran_order);
    CHECK(h.shape == std::vector<std::int64_t>{2, 3});
  }
}

TEST_CASE("files that are not what was expected: each says so, by name, and what to do") {
  const Folder folder;
  const std::string six = elements_of(kSix, '4', false), good = npy(dict("<f4", "(2, 3)"), six);
  REQUIRE(complaint(folder, good).empty());
  const auto says = [&](const std::string& bytes, const std::string& what) {
    const std::string text = complaint(folder, bytes);
    CHECK_MESSAGE(contains(text, what), "got: ", text);
    CHECK(contains(text, (folder / "x.npy").string() + ": "));
  };
  says("", "the file is empty");
  says("\x93NUM", "this is not a .npy file");
  says("hello, world, this is text", "this is not a .npy file");
  says("PK\x03\x04 and more of a zip", "perhaps .npz");
  says(npy(dict("<f4", "(2, 3)"), six, 4), "format version 4");
  says(std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12), "its header claims 2147483647 bytes");
  says(npy(dict("<i8", "(2, 3)"), six), "its dtype is '<i8'; expected float16, float32 or float64");
  says(npy(dict("<c8", "(2, 3)"), six), "its dtype is '<c8'");
  says(npy(dict("<f16", "(2, 3)"), six), "its dtype is '<f16'");
  says(npy(dict("|O", "(2, 3)"), six), "its elements are Python objects; expected float16");
  says(npy("{'descr': [('a', '<f4'), ('b', [('c]', '<i4')])], 'fortran_order': False, 'shape': (2, 3), }",
           six),
       "structured dtype");
  says(npy(dict("<f4", "()"), six), "shape (); expected 2 to 4 dimensions");
  says(npy(dict("<f4", "(6,)"), six), "shape (6,); expected 2 to 4 dimensions");
  says(npy(dict("<f4", "(1, 1, 1, 2, 3)"), six), "expected 2 to 4 dimensions");
  says(npy(dict("<f4", "(2, 0)"), ""), "shape (2, 0), which holds nothing");
  says(npy(dict("<f4", "(2, -3)"), six), "a length in its shape is negative");
  says(npy(dict("<f4", "(2, 99999999999999999999)"), six), "does not fit 64 bits");
  says(npy(dict("<f4", "(4294967296, 4294967296)"), six), "at most 268435456 elements");
  says(npy(dict("<f4", "(3000000000, 1)"), six), "at most 268435456 elements");
  says(npy(dict("<f4", "(9223372036854775807, 2)"), six), "at most 268435456 elements");
  says(npy(dict("<f4", "(200, 300)"), six),
       "takes 240000 bytes, but the file has 24 after its header; it was cut");
  says(good + good, "expected one array and no more");
  says(npy("{}", six), "it lacks 'descr'");
  says(npy("{'descr': '<f4', 'shape': (2, 3)}", six), "it lacks 'fortran_order'");
  says(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", six), "twice");
  says(npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}", six), "neither True nor False");
  says(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2.5, 3)}", six), "is missing");
  says(npy("{'descr': '<f4', 'fortran_order': False, 'shape': 6}", six), "'(' is missing");
  says(npy("{'descr': '<f4', 'fortran_order': False, 'size': 6}", six), "unknown key 'size'");
  says(npy(dict("<f4", "(2, 3)") + "x", six), "something follows");
}

TEST_CASE("a good file cut short anywhere is refused") {
  const Folder folder;
  for (const int version : {1, 2}) {
    const std::string good = npy(dict("<f4", "(2, 3)"), elements_of(kSix, '4', false), version);
    for (std::size_t length = 0; length < good.size(); ++length)
      CHECK_MESSAGE(!complaint(folder, good.substr(0, length)).empty(), length, " bytes");
  }
}

TEST_CASE("a good file with any one byte changed is read or refused, never worse") {
  const Folder folder;
  const std::string good = npy(dict("<f4", "(2, 3)"), elements_of(kSix, '4', false));
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int change : {1, 0x20, 0x80}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      refused += !complaint(folder, bytes).empty();
    }
  CHECK(refused > 100);
}

TEST_CASE("names that are no regular files") {
  const Folder folder;
  const auto why = [](const fs::path& path) {
    try {
      read_npy(path);
    } catch (const NpyError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(contains(why(folder / "none.npy"), "there is no such file"));
  CHECK(contains(why(folder / ""), "this is a folder"));
  CHECK(contains(why("/dev/null"), "not a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);  // opening it would block for ever
  CHECK(contains(why(folder / "pipe"), "not a regular file"));
}

TEST_CASE("a failed write leaves nothing behind and the old file as it was") {
  const Folder folder;
  write_npy(folder / "x.npy", {2, 3}, kSix, Dtype::fp64);
  const std::string before = bytes_in(folder / "x.npy");
  CHECK_THROWS_AS(write_npy(folder / "x.npy", {2, 2}, kSix, Dtype::fp64), NpyError);
  CHECK_THROWS_AS(write_npy(folder / "x.npy", {2, 3}, kSix, Dtype::bf16), NpyError);
  CHECK(bytes_in(folder / "x.npy") == before);
  CHECK_THROWS_AS(write_npy(folder / "no-such-folder/x.npy", {2, 3}, kSix, Dtype::fp64), NpyError);
  CHECK_THROWS_AS(write_npy(folder / "", {2, 3}, kSix, Dtype::fp64), NpyError);
  CHECK_THROWS_AS(write_npy("/dev/null", {2, 3}, kSix, Dtype::fp64), NpyError);
  CHECK_THROWS_AS(write_npy("/dev/full", {2, 3}, kSix, Dtype::fp64), NpyError);
  CHECK(folder.files() == 1);
}

TEST_CASE("a disk that fills up halfway leaves the old file and nothing else") {
  const Folder folder;
  write_npy(folder / "x.npy", {1, 2}, {1, 2}, Dtype::fp64);
  const std::string before = bytes_in(folder / "x.npy");
  rlimit limit;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlimit small = limit;
  small.rlim_cur = 300;  // a limit on files fails as a full disk does, once its signal is ignored
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  bool refused = false;
  try {
    write_npy(folder / "x.npy", {10, 10}, std::vector<double>(100), Dtype::fp64);
  } catch (const NpyError& e) {
    refused = contains(e.what(), "it cannot be written");
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  CHECK(refused);
  CHECK(bytes_in(folder / "x.npy") == before);
  CHECK(folder.files() == 1);
}

TEST_CASE("a file that is written over is replaced in one step, also through a link") {
  const Folder folder;
  write_npy(folder / "x.npy", {1, 2}, {1, 2}, Dtype::fp64);
  fs::create_symlink("x.npy", folder / "link.npy");
  std::ifstream reader(folder / "x.npy", std::ios::binary);  // sees the old file to its end
  write_npy(folder / "link.npy", {1, 3}, {4, 5, 6}, Dtype::fp32);
  CHECK(fs::is_symlink(folder / "link.npy"));
  CHECK(read_npy(folder / "x.npy").values == std::vector<double>{4, 5, 6});
  const std::string old{std::istreambuf_iterator<char>(reader), {}};
  CHECK(contains(old, "'shape': (1, 2)"));
  fs::create_symlink("nowhere", folder / "dangling.npy");
  CHECK_THROWS_AS(write_npy(folder / "dangling.npy", {1, 2}, {1, 2}, Dtype::fp64), NpyError);
  CHECK(folder.files() == 3);
}
