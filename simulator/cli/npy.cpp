#include "simulator/cli/npy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <system_error>

#include "cpu_reference/rounding.h"
#include "simulator/cli/npy_header.h"

namespace flashsim {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicSize = 6;
constexpr std::uint64_t kMaxHeader = 1 << 20;

[[noreturn]] void fail(const fs::path& path, const std::string& message) {
  throw NpyError(path.string() + ": " + message);
}

// ------------------------------------------------------------------------------------------------- reading

struct Element {
  Dtype dtype;
  bool swap;  ///< the file's byte order is not this machine's
};

Element element_of(const fs::path& path, const std::string& descr) {
  const std::string advice =
      "; expected float16, float32 or float64: save it with "
      "np.save(file, x.astype(np.float32))";
  if (descr.empty()) fail(path, "its elements are records (a structured dtype)" + advice);
  if (descr.find('O') != std::string::npos) fail(path, "its elements are Python objects" + advice);
  const bool prefixed = std::strchr("<>|=", descr[0]) != nullptr;
  const std::string type = descr.substr(prefixed ? 1 : 0);
  Element e{};
  if (type == "f2") {
    e.dtype = Dtype::fp16;
  } else if (type == "f4") {
    e.dtype = Dtype::fp32;
  } else if (type == "f8") {
    e.dtype = Dtype::fp64;
  } else {
    fail(path, "its dtype is '" + descr.substr(0, 40) + "'" + advice);
  }
  constexpr bool little = std::endian::native == std::endian::little;
  e.swap = (descr[0] == '<' && !little) || (descr[0] == '>' && little);
  return e;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string s = "(";
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i)
    s += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return s + (shape.size() > 8 ? ", ...)" : shape.size() == 1 ? ",)" : ")");
}

/// The number of elements, after checking the shape.
std::int64_t count_of(const fs::path& path, const std::vector<std::int64_t>& shape) {
  const std::string has = "it has shape " + shape_text(shape);
  if (shape.size() < 2 || shape.size() > 4)
    fail(path,
         has + "; expected 2 to 4 dimensions: ((batch,) heads,) rows, head_dim. Use x.reshape or x[None]");
  std::int64_t count = 1;
  for (const std::int64_t length : shape) {
    if (length == 0) fail(path, has + ", which holds nothing; every length must be at least 1");
    if (length > kNpyMaxElements / count)
      fail(path,
           has + "; at most " + std::to_string(kNpyMaxElements) + " elements can be read: save a slice");
    count *= length;
  }
  return count;
}

/// The element that starts at `bytes`.
double value_at(const unsigned char* bytes, Element e) {
  unsigned char b[8];
  const auto size = static_cast<std::size_t>(bytes_of(e.dtype));
  std::memcpy(b, bytes, size);
  if (e.swap) std::reverse(b, b + size);
  if (e.dtype == Dtype::fp16) {
    std::uint16_t code;
    std::memcpy(&code, b, sizeof code);
    return decode_fp16(code);
  }
  if (e.dtype == Dtype::fp32) {
    float x;
    std::memcpy(&x, b, sizeof x);
    return x;
  }
  double x;
  std::memcpy(&x, b, sizeof x);
  return x;
}

/// From first index fastest to last index fastest.
std::vector<double> to_c_order(const std::vector<double>& fortran, const std::vector<int>& shape) {
  std::vector<double> c(fortran.size());
  std::vector<int> index(shape.size(), 0);
  for (double& value : c) {
    std::size_t at = 0;
    for (std::size_t d = shape.size(); d-- > 0;)
      at = at * static_cast<std::size_t>(shape[d]) + static_cast<std::size_t>(index[d]);
    value = fortran[at];
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return c;
}

class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail(path, "there is no such file; check the name and the folder");
    if (fs::is_directory(status)) fail(path, "this is a folder; expected a .npy file");
    if (!fs::is_regular_file(status)) fail(path, "this is not a regular file; expected a .npy file on disk");
    left_ = fs::file_size(path, error);
    file_.open(path, std::ios::binary);
    if (error || !file_) fail(path, "it cannot be opened; check its permissions");
  }

  std::uint64_t left() const { return left_; }

  void read(void* to, std::uint64_t bytes, const char* what) {
    if (bytes > left_)
      fail(path_,
           std::string("it ends within its ") + what + "; the file was cut short: copy or save it again");
    if (!file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)))
      fail(path_,
           std::string("its ") + what + " cannot be read; the disk or the connection failed: try again");
    left_ -= bytes;
  }

 private:
  const fs::path& path_;
  std::ifstream file_;
  std::uint64_t left_ = 0;
};

NpyHeader read_header(const fs::path& path, Reader& file) {
  unsigned char start[kMagicSize + 2];
  const std::string not_npy =
      "this is not a .npy file (it does not start with \\x93NUMPY); save one with np.save";
  if (file.left() == 0) fail(path, "the file is empty; expected a .npy file, as np.save writes it");
  if (file.left() < sizeof start) fail(path, not_npy);
  file.read(start, sizeof start, "first bytes");
  if (std::memcmp(start, "PK\x03\x04", 4) == 0)
    fail(path, "this is a zip file, perhaps .npz; expected .npy: np.save the arrays one by one");
  if (std::memcmp(start, kMagic, kMagicSize) != 0) fail(path, not_npy);
  const int major = start[kMagicSize];
  if (major < 1 || major > 3)
    fail(path,
         "it has format version " + std::to_string(major) + "; expected 1, 2 or 3: save it with np.save");
  unsigned char length[4] = {};
  file.read(length, major == 1 ? 2 : 4, "header");
  const std::uint64_t bytes = length[0] | length[1] << 8 | length[2] << 16 | std::uint64_t{length[3]} << 24;
  if (bytes > kMaxHeader)
    fail(path, "its header claims " + std::to_string(bytes) + " bytes; the file is damaged: save it again");
  std::string text(bytes, '\0');
  file.read(text.data(), bytes, "header");
  try {
    return parse_npy_header(text);
  } catch (const NpyHeaderError& e) {
    fail(path, std::string("its header cannot be understood: ") + e.what() + "; save it again with np.save");
  }
}

// ------------------------------------------------------------------------------------------------- writing

void append_little_endian(std::string& to, std::uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(bits >> (8 * i) & 0xff);
}

std::string encoded(const std::vector<int>& shape, const std::vector<double>& values, Dtype dtype) {
  std::string header = npy_header_text(std::string("<f") + std::to_string(bytes_of(dtype)), shape);
  const std::size_t before = kMagicSize + 2 + 2, alignment = 64;  // the data starts at a multiple of 64
  header.append((alignment - (before + header.size() + 1) % alignment) % alignment, ' ');
  header += '\n';
  std::string out(kMagic, kMagicSize);
  out += {'\1', '\0'};
  append_little_endian(out, header.size(), 2);
  out += header;
  out.reserve(out.size() + values.size() * static_cast<std::size_t>(bytes_of(dtype)));
  for (const double x : values) {
    const std::uint64_t bits = dtype == Dtype::fp16   ? encode_fp16(x)
                               : dtype == Dtype::fp32 ? std::bit_cast<std::uint32_t>(static_cast<float>(x))
                                                      : std::bit_cast<std::uint64_t>(x);
    append_little_endian(out, bits, bytes_of(dtype));
  }
  return out;
}

/// A file under a name that nothing else has, which is gone with this object unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
      path_ = target;
      path_ += ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ < 0 && errno != EEXIST) break;
    }
    if (fd_ < 0) fail_with("it cannot be created", errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!renamed_) ::unlink(path_.c_str());
  }

  void write(const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_with("it cannot be written", errno);
      done += static_cast<std::size_t>(n);
    }
  }

  void rename_to_target() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail_with("it cannot be written", errno);
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail_with("it cannot be replaced", errno);
    renamed_ = true;
  }

 private:
  [[noreturn]] void fail_with(const std::string& what, int error) const {
    const std::string reason = std::error_code(error, std::generic_category()).message();
    fail(target_, what + " (" + reason + "); check the folder, its permissions and the free space");
  }

  fs::path target_, path_;
  int fd_ = -1;
  bool renamed_ = false;
};

}  // namespace

NpyArray read_npy(const fs::path& path) {
  Reader file(path);
  const NpyHeader header = read_header(path, file);
  const Element element = element_of(path, header.descr);
  const std::int64_t count = count_of(path, header.shape);
  const auto size = static_cast<std::size_t>(bytes_of(element.dtype));
  const std::uint64_t expected = static_cast<std::uint64_t>(count) * size;
  if (file.left() != expected)
    fail(path, "shape " + shape_text(header.shape) + " takes " + std::to_string(expected) +
                   " bytes, but the file has " + std::to_string(file.left()) + " after its header; " +
                   (file.left() < expected ? "it was cut short: copy or save it again"
                                           : "expected one array and no more: save it with np.save"));
  NpyArray array;
  array.shape.assign(header.shape.begin(), header.shape.end());
  array.dtype = element.dtype;
  array.values.resize(static_cast<std::size_t>(count));
  std::vector<unsigned char> bytes(size * 65536);
  for (std::size_t first = 0; first < array.values.size(); first += 65536) {
    const std::size_t n = std::min<std::size_t>(65536, array.values.size() - first);
    file.read(bytes.data(), n * size, "values");
    for (std::size_t i = 0; i < n; ++i) array.values[first + i] = value_at(bytes.data() + i * size, element);
  }
  if (header.fortran_order) array.values = to_c_order(array.values, array.shape);
  return array;
}

void write_npy(const fs::path& path, const std::vector<int>& shape, const std::vector<double>& values,
               Dtype dtype) {
  if (dtype != Dtype::fp16 && dtype != Dtype::fp32 && dtype != Dtype::fp64)
    fail(path, std::string("NumPy has no ") + name_of(dtype) + "; choose fp16, fp32 or fp64");
  std::uint64_t count = 1;
  for (const int length : shape) count *= static_cast<std::uint64_t>(std::max(length, 0));
  if (count != values.size())
    fail(path, "shape " + shape_text({shape.begin(), shape.end()}) + " has " + std::to_string(count) +
                   " elements, but there are " + std::to_string(values.size()) + " values");
  std::error_code error;
  fs::path target = path;
  if (fs::is_symlink(fs::symlink_status(path, error))) {  // the file it points to is replaced, not the link
    target = fs::canonical(path, error);
    if (error) fail(path, "this link points to nothing; name the file itself");
  }
  const fs::file_status status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    fail(path, "this exists and is not a regular file; choose another name");
  TemporaryFile file(target);
  file.write(encoded(shape, values, dtype));
  file.rename_to_target();
}

}  // namespace flashsim
