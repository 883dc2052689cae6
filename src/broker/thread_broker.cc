#include "broker/thread_broker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/threads.h"

namespace tutti::broker {

ThreadBroker::ThreadBroker() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  CHECK(event_ >= 0) << "cannot create an eventfd";
}

ThreadBroker::~ThreadBroker() {
  CHECK(!thread_.joinable()) << "a broker was not stopped";
  close(event_);
}

Status ThreadBroker::Start(Mailboxes mailboxes, Reader* reader) {
  mailboxes_ = std::move(mailboxes);
  reader_ = reader;
  try {
    thread_ = std::thread([this] {
      Main();
      ended_.store(true, std::memory_order_release);
    });
  } catch (const std::system_error& error) {
    return Unavailable("overloaded", std::string("cannot start a thread: ") + error.what());
  }
  return OkStatus();
}

void ThreadBroker::Stop() {
  stop_.store(true, std::memory_order_release);
  Poke();
  if (!thread_.joinable()) return;
  const SteadyClock clock;
  const TimePoint until = clock.Now() + kGoodbye;
  while (!ended_.load(std::memory_order_acquire)) {
    if (clock.Now() >= until) Interrupt();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  thread_.join();
}

void ThreadBroker::Poke() noexcept {
  const uint64_t one = 1;
  (void)!write(event_, &one, sizeof(one));  // full: it is awake already
}

void ThreadBroker::Send(const std::string& mailbox, std::string packet) {
  if (!connected_ || outgoing_bytes_ + packet.size() > kMaxWaitingBytes) return;
  outgoing_bytes_ += packet.size();
  outgoing_.push_back({mailbox, std::move(packet)});
}

Status ThreadBroker::Flush() {
  if (outgoing_.empty()) return OkStatus();
  std::vector<Outgoing> packets(std::make_move_iterator(outgoing_.begin()),
                                std::make_move_iterator(outgoing_.end()));
  outgoing_.clear();
  outgoing_bytes_ = 0;
  return Write(packets);
}

void ThreadBroker::Wait(Duration longest, bool connected) {
  std::array<pollfd, 3> polled{};
  polled[0] = {event_, POLLIN, 0};
  nfds_t count = 1;
  if (connected) {
    std::pair<int, int> descriptors(-1, -1);
    Descriptors(&descriptors);
    for (const int descriptor : {descriptors.first, descriptors.second}) {
      if (descriptor >= 0) polled[count++] = {descriptor, POLLIN, 0};
    }
  }
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  (void)poll(polled.data(), count, static_cast<int>(std::max<int64_t>(ms, 0)));
  uint64_t pokes = 0;
  (void)!read(event_, &pokes, sizeof(pokes));
}

// Serves until the connection is lost or the broker is stopped.
Status ThreadBroker::Serve() {
  while (!stopping()) {
    RETURN_IF_ERROR(Read());
    reader_->OnTurn();
    RETURN_IF_ERROR(Flush());
    Wait(kTick, /*connected=*/true);
  }
  reader_->OnTurn();
  return Flush();
}

void ThreadBroker::Main() {
  NameThread("tutti-broker");
  const SteadyClock clock;
  Duration pause = kFirstPause;
  while (!stopping()) {
    Status status = Connect(mailboxes_);
    if (status.ok()) {
      pause = kFirstPause;
      connected_ = true;
      reader_->OnConnected();
      status = Serve();
      connected_ = false;
      outgoing_.clear();
      outgoing_bytes_ = 0;
    }
    Disconnect();
    if (stopping()) return;
    reader_->OnDisconnected(status);
    const TimePoint again = clock.Now() + pause;
    pause = std::min(pause * 2, kLongestPause);
    while (!stopping() && clock.Now() < again) {
      reader_->OnTurn();
      Wait(std::min(again - clock.Now(), kTick), /*connected=*/false);
    }
  }
}

}  // namespace tutti::broker
