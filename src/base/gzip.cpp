#include "base/gzip.hpp"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

namespace vitrine {
namespace {

constexpr int gzip_window = 15 + 16;  // zlib's way to ask for gzip instead of its own format
constexpr std::size_t growth = 256 * 1024;
/// Of a profile: a sixth of the time of the usual 6 of zlib, and an eighth more bytes.
constexpr int level = 1;

/// zlib counts in 32 bits: what it can be given of `left` bytes at once.
uInt at_once(std::size_t left) {
  return static_cast<uInt>(std::min<std::size_t>(left, std::numeric_limits<uInt>::max()));
}

struct FreeCompressor {
  void operator()(libdeflate_compressor* one) const { libdeflate_free_compressor(one); }
};

/// Inflates to the end of `in` with room in `out`, which grows up to `most`. Returns the last status: Z_STREAM_END,
/// an error, or Z_BUF_ERROR when `out` is full or `in` ended.
int inflate_all(z_stream& stream, std::string_view in, std::string& out, std::size_t most) {
  int status = Z_OK;
  std::size_t taken = 0;
  while (status == Z_OK) {
    const std::size_t before = out.size();
    out.resize(std::min(before + growth, most));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data() + taken));
    stream.avail_in = at_once(in.size() - taken);
    const uInt given = stream.avail_in;
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = at_once(out.size() - before);
    status = inflate(&stream, Z_NO_FLUSH);
    taken += given - stream.avail_in;
    out.resize(out.size() - stream.avail_out);
  }
  return status;
}

}  // namespace

Result<std::string> gzip(std::string_view bytes) {
  const std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor(
      libdeflate_alloc_compressor(level));
  if (compressor == nullptr) return fail(ErrorCode::failed, "compressing: no memory");
  const std::size_t most = libdeflate_gzip_compress_bound(compressor.get(), bytes.size());
  const std::unique_ptr<char[]> out(new (std::nothrow) char[most]);
  if (out == nullptr) return fail(ErrorCode::failed, "compressing: no memory");
  const std::size_t size =
      libdeflate_gzip_compress(compressor.get(), bytes.data(), bytes.size(), out.get(), most);
  if (size == 0) return fail(ErrorCode::failed, "compressing: libdeflate failed");
  return std::string(out.get(), size);
}

Result<std::string> gunzip(std::string_view bytes, std::size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, gzip_window) != Z_OK)
    return fail(ErrorCode::failed, "decompressing: no memory");
  std::string out;
  const int status = inflate_all(stream, bytes, out, most + 1);
  const bool more = stream.avail_in != 0;
  inflateEnd(&stream);
  if (out.size() > most)
    return fail(ErrorCode::limit, "more than " + std::to_string(most) + " bytes when decompressed");
  if (status != Z_STREAM_END) return fail(ErrorCode::malformed, "not gzip, or truncated");
  if (more) return fail(ErrorCode::malformed, "trailing bytes after the end of the gzip data");
  return out;
}

}  // namespace vitrine
