// One model and many threads: each rents a generator when it has something to ask. The threads'
// requests share the forward passes, and no answer depends on what the others ask. Usage: pool
// [MODEL]
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

int main(int argc, char** argv) try {
  const tutti::Model model =
      tutti::Model::Load(tutti::ModelOptions(argc > 1 ? argv[1] : "")).value();
  tutti::GeneratorPool pool(model, {.temperature = 0, .max_tokens = 8});

  std::vector<std::string> answers(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] {
      tutti::GeneratorPool::Lease generator = pool.Rent();  // goes back by itself
      const auto answer = generator->Generate(tutti::Text{"The colour of the sky is"});
      answers[i] = answer.ok() ? answer->text() : answer.error().message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : answers) std::cout << answer << "\n";
  std::cout << "kept for the next: " << pool.kept() << "\n";

  // What a handler throws comes back to the caller.
  try {
    pool.Rent()
        ->Generate(tutti::Text{"One, two,"},
                   [](const tutti::Token&) { throw std::runtime_error("enough"); })
        .value();
  } catch (const std::runtime_error& error) {
    std::cout << "the handler said: " << error.what() << "\n";
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
