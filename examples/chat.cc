// A conversation, streamed: each line of standard input is a message. An answer that runs too long
// is cancelled; what was said until then stays part of the conversation. Usage: chat [MODEL
// [MAX_PIECES]]
#include <cstdlib>
#include <iostream>
#include <string>

#include "tutti/tutti.h"

int main(int argc, char** argv) try {
  const int max_pieces = argc > 2 ? std::atoi(argv[2]) : 200;
  // value() throws tutti::Exception instead of giving the error back.
  const tutti::Model model =
      tutti::Model::Load(tutti::ModelOptions(argc > 1 ? argv[1] : "").MaxNumSeqs(1)).value();

  tutti::Chat chat;
  chat.messages.push_back({tutti::Role::kSystem, "You answer in one short sentence."});
  for (std::string line; std::getline(std::cin, line);) {
    chat.messages.push_back({tutti::Role::kUser, line});
    tutti::Job job = model.Submit({.prompt = chat, .sampling = {.temperature = 0}}).value();
    int pieces = 0;
    while (const std::optional<tutti::Token> token = job.Next()) {
      std::cout << token->text << std::flush;
      if (++pieces == max_pieces) job.Cancel();  // the next Next() gives nothing
    }
    const tutti::Completion answer = job.Join().value();  // exactly what was printed
    if (answer.finish_reason() == tutti::FinishReason::kCancelled) std::cout << " (cut off)";
    std::cout << "\n";
    chat.messages.push_back({tutti::Role::kAssistant, answer.text()});
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
