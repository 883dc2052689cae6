#include "kv/disk/pin_file.h"

#include <array>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string>

#include "files/digest.h"

namespace tutti::kv {
namespace {

constexpr char kPinMagic[8] = {'T', 'U', 'T', 'T', 'I', 'P', 'I', 'N'};
constexpr uint32_t kPinVersion = 1;
constexpr size_t kPinFront = 56, kPinSum = 8;

void Append(std::vector<std::byte>& out, const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

template <typename T>
void AppendValue(std::vector<std::byte>& out, T value) {
  Append(out, &value, sizeof value);
}

template <typename T>
T ValueAt(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Status DamagedPin(const std::string& what) {
  return InvalidArgument("prefix_file_damaged", "pin file: " + what);
}

}  // namespace

std::vector<std::byte> EncodePin(const Hash128& model, const PinRecord& record) {
  std::vector<std::byte> out;
  Append(out, kPinMagic, sizeof kPinMagic);
  AppendValue(out, kPinVersion);
  AppendValue(out, static_cast<uint32_t>(record.adapter.size()));
  AppendValue(out, model);
  AppendValue(out, record.expires_unix_ms);
  for (const size_t size :
       {record.id.size(), record.tenant.size(), record.salt.size(), record.tokens.size()})
    AppendValue(out, static_cast<uint32_t>(size));
  for (const std::string* text : {&record.id, &record.tenant, &record.salt, &record.adapter})
    Append(out, text->data(), text->size());
  Append(out, record.tokens.data(), record.tokens.size() * sizeof(TokenId));
  AppendValue(out, files::Xxh64(out));
  return out;
}

Result<PinFile> DecodePin(std::span<const std::byte> bytes) {
  if (bytes.size() < kPinFront + kPinSum || bytes.size() > kMaxPinFileBytes)
    return DamagedPin("its size is wrong");
  const auto content = bytes.first(bytes.size() - kPinSum);
  if (std::memcmp(bytes.data(), kPinMagic, sizeof kPinMagic) != 0 ||
      ValueAt<uint32_t>(bytes, 8) != kPinVersion)
    return DamagedPin("it is of another kind");
  if (files::Xxh64(content) != ValueAt<uint64_t>(bytes, content.size()))
    return DamagedPin("its checksum is wrong");
  PinFile file;
  file.model = ValueAt<Hash128>(bytes, 16);
  file.record.expires_unix_ms = ValueAt<int64_t>(bytes, 32);
  // Sizes of id, tenant, salt, adapter and tokens.
  std::array<uint64_t, 5> sizes{};
  for (size_t i = 0; i < sizes.size(); ++i) {
    constexpr size_t kAt[] = {40, 44, 48, 12, 52};
    sizes[i] = ValueAt<uint32_t>(bytes, kAt[i]);
  }
  sizes[4] *= sizeof(TokenId);
  if (std::accumulate(sizes.begin(), sizes.end(), uint64_t{kPinFront}) != content.size())
    return DamagedPin("its sizes do not agree");
  const char* at = reinterpret_cast<const char*>(bytes.data()) + kPinFront;
  std::string* const texts[] = {&file.record.id, &file.record.tenant, &file.record.salt,
                                &file.record.adapter};
  for (size_t i = 0; i < std::size(texts); ++i) {
    texts[i]->assign(at, sizes[i]);
    at += sizes[i];
  }
  file.record.tokens.resize(sizes[4] / sizeof(TokenId));
  if (sizes[4] > 0) std::memcpy(file.record.tokens.data(), at, sizes[4]);
  return file;
}

}  // namespace tutti::kv
