#include "server/net/io_thread.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace tutti::sockets {
namespace {

struct LastLine final : Logger::Sink {
  void Line(std::string_view text) override { line = text; }
  std::string line;
};

TEST(IoThread, RunsWhatIsPostedOnAThreadOfItsOwn) {
  IoThread thread("test-io", nullptr, "test.handler_failed");
  EXPECT_FALSE(thread.started());
  thread.Start();
  EXPECT_TRUE(thread.started());
  std::promise<std::thread::id> ran;
  boost::asio::post(thread.context(), [&] { ran.set_value(std::this_thread::get_id()); });
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
  thread.Stop();
  EXPECT_FALSE(thread.started());
}

TEST(IoThread, AHandlerThatThrowsIsLoggedAndTheOthersGoOn) {
  const auto lines = std::make_shared<LastLine>();
  Logger log(LogLevel::kInfo, lines);
  IoThread thread("test-io", &log, "test.handler_failed");
  thread.Start();
  boost::asio::post(thread.context(), [] { throw std::runtime_error("of a library"); });
  std::promise<void> next;
  boost::asio::post(thread.context(), [&] { next.set_value(); });
  next.get_future().wait();
  thread.Stop();
  EXPECT_NE(lines->line.find("test.handler_failed what=\"of a library\""), std::string::npos)
      << lines->line;
}

TEST(IoThread, StopWaitsForWhatIsPostedAndSweepRunsWhatCameTooLate) {
  IoThread thread("test-io", nullptr, "test.handler_failed");
  thread.Start();
  bool posted = false, late = false;
  boost::asio::post(thread.context(), [&] { posted = true; });
  thread.Stop();
  EXPECT_TRUE(posted);
  boost::asio::post(thread.context(), [&] { late = true; });
  EXPECT_FALSE(late);
  thread.Sweep();
  EXPECT_TRUE(late);
}

}  // namespace
}  // namespace tutti::sockets
