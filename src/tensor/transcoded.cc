#include "tensor/transcoded.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "tensor/blocks.h"

namespace tutti::tensor {
namespace {

// Where fields lie in a block, in bytes from its beginning. All fields may be unaligned: blocks of
// MXFP4 have 17 bytes.
const uint8_t* Bytes(const std::byte* at) { return reinterpret_cast<const uint8_t*>(at); }

uint16_t U16(const uint8_t* at) {
  uint16_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}
uint32_t U32(const uint8_t* at) {
  uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}
float HalfAt(const uint8_t* at) { return HalfToFloat(U16(at)); }

int Nibble(const uint8_t* bytes, int i) { return (bytes[i / 2] >> (i % 2 * 4)) & 15; }

constexpr int8_t kTwoBitMagnitudes[4] = {8, 25, 43, 0};  // of IQ2
constexpr int8_t kIq3XxsMagnitudes[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
// E8M0 up to which twelve times the scale is a float.
constexpr int kMaxMxfp4Exponent = 250;

// Seven signs are stored; the eighth makes their number even.
uint8_t EvenSigns(uint32_t seven) {
  return static_cast<uint8_t>(seven | (static_cast<uint32_t>(std::popcount(seven) & 1) << 7));
}

int8_t Signed(int8_t magnitude, uint8_t signs, int bit) {
  return static_cast<int8_t>(((signs >> bit) & 1) != 0 ? -magnitude : magnitude);
}

// Eight elements of an IQ2 type.
void Grid2(uint16_t entry, uint8_t signs, int8_t* q) {
  for (int k = 0; k < 8; ++k) q[k] = Signed(kTwoBitMagnitudes[(entry >> (2 * k)) & 3], signs, k);
}

// Eight elements of an IQ1 type, in eighths of its scale: -1, 0 or 1 and an eighth more or less.
void Grid1(uint16_t entry, bool less, int8_t* q) {
  for (int k = 0; k < 8; ++k) {
    q[k] = static_cast<int8_t>(8 * (((entry >> (2 * k)) & 3) - 1) + (less ? -1 : 1));
  }
}

void OneScale(float scale, Block32* out) { out->scale[0] = out->scale[1] = scale; }

// Bits 2j and 2j + 1 of 32 bytes: the quants of Q2_K, Q3_K and TQ2_0 have four such groups in 32
// bytes.
int TwoBits(const uint8_t* qs, int part, int i) {
  return (qs[part / 4 * 32 + i] >> (part % 4 * 2)) & 3;
}

void ReadQ2K(const uint8_t* b, int part, Block32* out) {
  const float d = HalfAt(b + 80);
  const float dmin = HalfAt(b + 82);
  for (int h = 0; h < 2; ++h) {
    const uint8_t scales = b[2 * part + h];
    out->scale[h] = d * static_cast<float>(scales & 15);
    out->offset[h] = dmin * static_cast<float>(scales >> 4);
  }
  for (int i = 0; i < 32; ++i) out->q[i] = static_cast<int8_t>(TwoBits(b + 16, part, i));
}

void ReadQ3K(const uint8_t* b, int part, Block32* out) {
  const uint8_t* scales = b + 96;
  const float d = HalfAt(b + 108);
  for (int h = 0; h < 2; ++h) {
    const int k = 2 * part + h;
    const int low = k < 8 ? scales[k] & 15 : scales[k - 8] >> 4;
    const int high = (scales[8 + k % 4] >> (k / 4 * 2)) & 3;
    out->scale[h] = d * static_cast<float>((low | (high << 4)) - 32);
  }
  for (int i = 0; i < 32; ++i) {
    const int less = ((b[i] >> part) & 1) != 0 ? 0 : 4;
    out->q[i] = static_cast<int8_t>(TwoBits(b + 32, part, i) - less);
  }
}

// Five digits of base 3 in a byte, as a fraction of 256: the p-th is read by multiplying.
int TernaryDigit(uint8_t packed, int p) {
  constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  return (static_cast<uint8_t>(packed * kPowers[p]) * 3) >> 8;
}

void ReadTq1(const uint8_t* b, int part, Block32* out) {
  OneScale(HalfAt(b + 52), out);
  for (int i = 0; i < 32; ++i) {
    const int e = 32 * part + i;
    int digit = 0;
    if (e < 160) {
      digit = TernaryDigit(b[e % 32], e / 32);
    } else if (e < 240) {
      digit = TernaryDigit(b[32 + (e - 160) % 16], (e - 160) / 16);
    } else {
      digit = TernaryDigit(b[48 + (e - 240) % 4], (e - 240) / 4);
    }
    out->q[i] = static_cast<int8_t>(digit - 1);
  }
}

void ReadTq2(const uint8_t* b, int part, Block32* out) {
  OneScale(HalfAt(b + 64), out);
  for (int i = 0; i < 32; ++i) out->q[i] = static_cast<int8_t>(TwoBits(b, part, i) - 1);
}

void ReadMxfp4(const uint8_t* b, Block32* out) {
  OneScale(HalfOfE8M0(b[0]), out);
  for (int i = 0; i < 16; ++i) {
    out->q[i] = kE2M1Values[b[1 + i] & 15];
    out->q[i + 16] = kE2M1Values[b[1 + i] >> 4];
  }
}

void ReadIq4(const uint8_t* qs, Block32* out) {
  for (int i = 0; i < 16; ++i) {
    out->q[i] = kIq4Values[qs[i] & 15];
    out->q[i + 16] = kIq4Values[qs[i] >> 4];
  }
}

void ReadIq4Xs(const uint8_t* b, int part, Block32* out) {
  const int high = (U16(b + 2) >> (2 * part)) & 3;
  OneScale(HalfAt(b) * static_cast<float>((Nibble(b + 4, part) | (high << 4)) - 32), out);
  ReadIq4(b + 8 + 16 * part, out);
}

void ReadIq2Xxs(const uint8_t* b, int part, Block32* out) {
  const uint8_t* at = b + 2 + 8 * part;
  const uint32_t word = U32(at + 4);
  OneScale(HalfAt(b) * (0.5f + static_cast<float>(word >> 28)) * 0.25f, out);
  for (int g = 0; g < 4; ++g) {
    Grid2(kGridIq2Xxs[at[g]], EvenSigns((word >> (7 * g)) & 127), out->q + 8 * g);
  }
}

// The scales of IQ2_XS and IQ2_S: four bits for each 16 elements.
void Iq2Scales(float d, uint8_t scales, Block32* out) {
  out->scale[0] = d * (0.5f + static_cast<float>(scales & 15)) * 0.25f;
  out->scale[1] = d * (0.5f + static_cast<float>(scales >> 4)) * 0.25f;
}

void ReadIq2Xs(const uint8_t* b, int part, Block32* out) {
  Iq2Scales(HalfAt(b), b[66 + part], out);
  for (int g = 0; g < 4; ++g) {
    const uint16_t word = U16(b + 2 + 2 * (4 * part + g));
    Grid2(kGridIq2Xs[word & 511], EvenSigns(word >> 9), out->q + 8 * g);
  }
}

void ReadIq2S(const uint8_t* b, int part, Block32* out) {
  Iq2Scales(HalfAt(b), b[74 + part], out);
  for (int g = 0; g < 4; ++g) {
    const int high = (b[66 + part] >> (2 * g)) & 3;
    Grid2(kGridIq2S[b[2 + 4 * part + g] | (high << 8)], b[34 + 4 * part + g], out->q + 8 * g);
  }
}

void ReadIq3Xxs(const uint8_t* b, int part, Block32* out) {
  const uint32_t word = U32(b + 66 + 4 * part);
  OneScale(HalfAt(b) * (0.5f + static_cast<float>(word >> 28)) * 0.5f, out);
  for (int i = 0; i < 32; ++i) {
    const uint16_t entry = kGridIq3Xxs[b[2 + 8 * part + i / 4]];
    const uint8_t signs = EvenSigns((word >> (7 * (i / 8))) & 127);
    out->q[i] = Signed(kIq3XxsMagnitudes[(entry >> (4 * (i % 4))) & 7], signs, i % 8);
  }
}

void ReadIq3S(const uint8_t* b, int part, Block32* out) {
  OneScale(HalfAt(b) * static_cast<float>(1 + 2 * Nibble(b + 106, part)), out);
  for (int i = 0; i < 32; ++i) {
    const int high = (b[66 + part] >> (i / 4)) & 1;
    const uint16_t entry = kGridIq3S[b[2 + 8 * part + i / 4] | (high << 8)];
    const int8_t magnitude = static_cast<int8_t>(1 + 2 * ((entry >> (4 * (i % 4))) & 7));
    out->q[i] = Signed(magnitude, b[74 + 4 * part + i / 8], i % 8);
  }
}

void ReadIq1S(const uint8_t* b, int part, Block32* out) {
  const uint16_t word = U16(b + 34 + 2 * part);
  OneScale(HalfAt(b) * static_cast<float>(2 * ((word >> 12) & 7) + 1) * 0.125f, out);
  for (int g = 0; g < 4; ++g) {
    const int high = (word >> (3 * g)) & 7;
    Grid1(kGridIq1[b[2 + 4 * part + g] | (high << 8)], (word & 0x8000) != 0, out->q + 8 * g);
  }
}

// Four bits of the scale in each of four words.
float Iq1MScale(const uint8_t* b) {
  uint32_t bits = 0;
  for (int k = 0; k < 4; ++k) bits |= static_cast<uint32_t>(U16(b + 48 + 2 * k) >> 12) << (4 * k);
  return HalfToFloat(static_cast<uint16_t>(bits));
}

void ReadIq1M(const uint8_t* b, int part, Block32* out) {
  const float d = Iq1MScale(b);
  for (int h = 0; h < 2; ++h) {
    const int k = 2 * part + h;
    const int scale = (U16(b + 48 + 2 * (k / 4)) >> (3 * (k % 4))) & 7;
    out->scale[h] = d * static_cast<float>(2 * scale + 1) * 0.125f;
  }
  for (int g = 0; g < 4; ++g) {
    const int high = Nibble(b + 32, 4 * part + g);
    Grid1(kGridIq1[b[4 * part + g] | ((high & 7) << 8)], (high & 8) != 0, out->q + 8 * g);
  }
}

}  // namespace

bool IsTranscoded(DType dtype) {
  return std::find(std::begin(kTranscodedTypes), std::end(kTranscodedTypes), dtype) !=
         std::end(kTranscodedTypes);
}

bool HasOneScale(DType dtype) {
  switch (dtype) {
    case DType::kTQ1_0:
    case DType::kTQ2_0:
    case DType::kMXFP4:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kIQ2_XXS:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ1_S:
      return true;
    default:
      return false;
  }
}

void ReadBlock32(DType dtype, const std::byte* row, int64_t block, Block32* out) {
  const DTypeInfo& info = Info(dtype);
  const int64_t parts = info.block_elements / 32;
  const uint8_t* b = Bytes(row) + block / parts * info.block_bytes;
  const int part = static_cast<int>(block % parts);
  out->offset[0] = out->offset[1] = 0;
  switch (dtype) {
    case DType::kQ2_K:
      return ReadQ2K(b, part, out);
    case DType::kQ3_K:
      return ReadQ3K(b, part, out);
    case DType::kTQ1_0:
      return ReadTq1(b, part, out);
    case DType::kTQ2_0:
      return ReadTq2(b, part, out);
    case DType::kMXFP4:
      return ReadMxfp4(b, out);
    case DType::kIQ4_NL:
      OneScale(HalfAt(b), out);
      return ReadIq4(b + 2, out);
    case DType::kIQ4_XS:
      return ReadIq4Xs(b, part, out);
    case DType::kIQ2_XXS:
      return ReadIq2Xxs(b, part, out);
    case DType::kIQ2_XS:
      return ReadIq2Xs(b, part, out);
    case DType::kIQ2_S:
      return ReadIq2S(b, part, out);
    case DType::kIQ3_XXS:
      return ReadIq3Xxs(b, part, out);
    case DType::kIQ3_S:
      return ReadIq3S(b, part, out);
    case DType::kIQ1_S:
      return ReadIq1S(b, part, out);
    case DType::kIQ1_M:
      return ReadIq1M(b, part, out);
    default:
      break;
  }
  CHECK(false) << "type id " << static_cast<uint32_t>(dtype) << " is not transcoded";
}

bool TranscodedBlockIsFinite(DType dtype, const std::byte* block) {
  const uint8_t* b = Bytes(block);
  switch (dtype) {
    case DType::kQ2_K:
      return std::isfinite(HalfAt(b + 80)) && std::isfinite(HalfAt(b + 82));
    case DType::kQ3_K:
      return std::isfinite(HalfAt(b + 108));
    case DType::kTQ1_0:
      return std::isfinite(HalfAt(b + 52));
    case DType::kTQ2_0:
      return std::isfinite(HalfAt(b + 64));
    case DType::kMXFP4:
      return b[0] <= kMaxMxfp4Exponent;
    case DType::kIQ1_M:
      return std::isfinite(Iq1MScale(b));
    default:
      return std::isfinite(HalfAt(b));
  }
}

}  // namespace tutti::tensor
