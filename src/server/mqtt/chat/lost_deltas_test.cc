// Deltas are sent with QoS 0 and may be lost: every client still gets the full text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "server/mqtt/chat/testing/native_client.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using testing::Event;
using testing::NativeClient;

class LostDeltasTest : public testing::ProfileFixture {
 protected:
  struct Chat {
    std::string session, text;
    NativeClient client;
    size_t read = 0;
  };
  // Passes new messages to each client, and publishes its requests; true if there were any.
  bool Serve(std::vector<Chat>* chats) {
    bool asked = false;
    for (Chat& chat : *chats) {
      const std::vector<testing::Sent> sent = port_.sent(Topic("out", chat.session));
      for (; chat.read < sent.size(); ++chat.read) {
        const std::optional<std::string> resume =
            chat.client.Take(Event(sent[chat.read].message.payload));
        if (!resume.has_value()) continue;
        asked = true;
        Message message;
        message.topic = Topic("ctl", chat.session);
        message.payload = *resume;
        message.qos = 1;
        port_.Deliver(message);
      }
    }
    Settle();
    return asked;
  }
  std::vector<Chat> Begin(int chats, Random* random) {
    std::vector<Chat> begun(static_cast<size_t>(chats));
    for (int i = 0; i < chats; ++i) {
      Chat& chat = begun[static_cast<size_t>(i)];
      chat.session = "s" + std::to_string(i);
      for (int word = 0; word < 40; ++word)
        chat.text += " w" + std::to_string(random->Next() % 1000);
      Deliver(Topic("in", chat.session), MessageJson(chat.text, "m1"));
    }
    return begun;
  }
};

TEST_F(LostDeltasTest, WithTenPercentLostEveryClientEndsWithTheFullText) {
  Random random(1);
  Random loses(2);
  port_.lose = [&](const Message&) { return loses.Next() % 10 == 0; };
  std::vector<Chat> chats = Begin(20, &random);
  int step = 0;
  while (inference_->Step()) {
    Settle();
    Advance(std::chrono::milliseconds(++step % 4 * 10));
    Serve(&chats);
  }
  while (Serve(&chats)) Settle();
  int gaps = 0;
  for (const Chat& chat : chats) {
    EXPECT_TRUE(chat.client.ended());
    EXPECT_EQ(chat.client.final(), "[" + chat.text + "]");
    gaps += chat.client.gaps();
  }
  EXPECT_GT(gaps, 10) << "so the test has lost some";
  EXPECT_EQ(inference_->requests().size(), 20u) << "nothing was generated twice";
}

TEST_F(LostDeltasTest, WithNoneLostTheDeltasAreTheWholeText) {
  Random random(3);
  std::vector<Chat> chats = Begin(10, &random);
  int step = 0;
  while (inference_->Step()) {
    Settle();
    Advance(std::chrono::milliseconds(++step % 7 * 9));
    Serve(&chats);
  }
  Serve(&chats);
  for (const Chat& chat : chats) {
    EXPECT_TRUE(chat.client.complete());
    EXPECT_EQ(chat.client.gaps(), 0);
    EXPECT_EQ(chat.client.text(), "[" + chat.text + "]");
    EXPECT_EQ(chat.client.final(), chat.client.text());
  }
}

}  // namespace
}  // namespace tutti::mqtt::chat
