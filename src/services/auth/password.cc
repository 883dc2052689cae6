#include "services/auth/password.h"

#include <argon2.h>
#include <openssl/rand.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/threads.h"

namespace tutti::auth {
namespace {

constexpr size_t kSaltBytes = 16, kHashBytes = 32;
constexpr uint32_t kMaxMemoryKib = 1 << 20, kMaxPasses = 16, kMaxLanes = 16;

std::string Prefix(const HashParameters& parameters) {
  return "$argon2id$v=19$m=" + std::to_string(parameters.memory_kib) +
         ",t=" + std::to_string(parameters.passes) + ",p=" + std::to_string(parameters.lanes) + "$";
}

// Takes `word` and the number after it from the front of `text`.
std::optional<uint32_t> TakeNumber(std::string_view word, std::string_view* text) {
  if (!text->starts_with(word)) return std::nullopt;
  text->remove_prefix(word.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

std::optional<HashParameters> ParametersOf(std::string_view hash) {
  const auto memory_kib = TakeNumber("$argon2id$v=19$m=", &hash);
  const auto passes = TakeNumber(",t=", &hash);
  const auto lanes = TakeNumber(",p=", &hash);
  if (!memory_kib || !passes || !lanes || !hash.starts_with('$')) return std::nullopt;
  return HashParameters{*memory_kib, *passes, *lanes};
}

Status Failed(int code) {
  if (code == ARGON2_MEMORY_ALLOCATION_ERROR || code == ARGON2_THREAD_FAIL) return OutOfMemory();
  return Internal(std::string("argon2: ") + argon2_error_message(code));
}

int ThreadsOf(const PasswordPool::Options& options) {
  const int wanted = options.threads > 0 ? options.threads : UsableCores() / 2;
  return std::clamp(wanted, 1, PasswordPool::kMaxThreads);
}

Status TooMany(size_t waiting) {
  return Unavailable("overloaded",
                     std::to_string(waiting) + " logins wait for their passwords to be checked")
      .WithRetryAfter(std::chrono::seconds(2));
}

}  // namespace

Status CheckNewPassword(std::string_view password) {
  const auto bad = [](std::string message) { return BadValue("password", std::move(message)); };
  if (password.size() < kLeastPasswordBytes || password.size() > kMaxPasswordBytes)
    return bad("a password has " + std::to_string(kLeastPasswordBytes) + " to " +
               std::to_string(kMaxPasswordBytes) + " bytes");
  const bool control = std::any_of(password.begin(), password.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  return control ? bad("a password holds no control characters") : OkStatus();
}

Result<std::string> HashPassword(std::string_view password, const HashParameters& parameters) {
  std::array<unsigned char, kSaltBytes> salt{};
  if (RAND_bytes(salt.data(), static_cast<int>(salt.size())) != 1)
    return Internal("the system's random generator failed");
  std::string encoded(argon2_encodedlen(parameters.passes, parameters.memory_kib, parameters.lanes,
                                        kSaltBytes, kHashBytes, Argon2_id),
                      '\0');
  const int code = argon2id_hash_encoded(parameters.passes, parameters.memory_kib, parameters.lanes,
                                         password.data(), password.size(), salt.data(), salt.size(),
                                         kHashBytes, encoded.data(), encoded.size());
  if (code != ARGON2_OK) return Failed(code);
  encoded.resize(encoded.find('\0'));
  return encoded;
}

std::string HashOfNobody(const HashParameters& parameters) {
  // In base64, all bits zero: a salt of 16 bytes, and a hash of 32 that no known password has.
  return Prefix(parameters) + std::string(22, 'A') + "$" + std::string(43, 'A');
}

Result<bool> VerifyPassword(std::string_view password, const std::string& hash) {
  const std::optional<HashParameters> parameters = ParametersOf(hash);
  if (!parameters || parameters->memory_kib > kMaxMemoryKib || parameters->passes > kMaxPasses ||
      parameters->lanes > kMaxLanes)
    return Status(StatusCode::kDataLoss, "record_corrupt", "a user's hash cannot be read");
  const int code = argon2id_verify(hash.c_str(), password.data(), password.size());
  if (code == ARGON2_OK) return true;
  if (code == ARGON2_VERIFY_MISMATCH) return false;
  return Failed(code);
}

bool NeedsRehash(std::string_view hash, const HashParameters& parameters) {
  return !hash.starts_with(Prefix(parameters));
}

PasswordPool::PasswordPool(const Options& options) : options_(options) {
  for (int i = ThreadsOf(options); i > 0; --i) threads_.emplace_back([this] { Main(); });
}

PasswordPool::~PasswordPool() {
  std::deque<Waiting> left;
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
    left.swap(waiting_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  for (const Waiting& each : left) each.job(Unavailable("draining", "the server is ending"));
}

void PasswordPool::Run(Job job) {
  Status refused;
  {
    const MutexLock guard(mutex_);
    if (waiting_.size() < options_.max_waiting) {
      waiting_.push_back({std::move(job), std::chrono::steady_clock::now()});
      changed_.NotifyOne();
      return;
    }
    refused = TooMany(waiting_.size());
  }
  job(refused);
}

void PasswordPool::Main() {
  NameThread("tutti-password");
  (void)setpriority(PRIO_PROCESS, 0, options_.nice);  // of this thread alone, as Linux has it
  PreferLongTurns();
  while (true) {
    Waiting next;
    size_t behind = 0;
    {
      const MutexLock guard(mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (stopping_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      behind = waiting_.size();
    }
    const auto waited = std::chrono::steady_clock::now() - next.since;
    next.job(waited > options_.max_wait ? TooMany(behind) : OkStatus());
  }
}

}  // namespace tutti::auth
