#include "model/check_texts.h"

#include <array>

namespace tutti::model {
namespace {

constexpr std::array<std::string_view, 16> kPeaks = {
    "The ferry leaves at half past six, unless the wind turns north during the night.",
    "Ein kurzer Satz, der nichts Besonderes sagt.",
    "for i in range(len(rows)): total += rows[i]['price'] * 1.19",
    "3.14159 is pi; 42 is the answer; 1,000,000 is a lot.",
    "yes",
    "How do I reset my password?",
    "Le chat dort sur le canapé depuis ce matin.",
    "東京は日本の首都です。",
    "Warning: disk /dev/sda1 is 97% full (2.1 GB left).",
    "Climate policy and the price of carbon in 2023",
    "!!!",
    "Привет, как дела?",
    "The contract may be ended by either party with thirty days' written notice, provided that all "
    "outstanding invoices have been paid in full and that the equipment has been returned.",
    "a",
    "Vaccines lower the risk of severe illness in people over sixty.",
    "los niños juegan en el parque",
};

constexpr std::array<std::string_view, 16> kChecks = {
    "What is the boiling point of water at two thousand metres above the sea?",
    "Die Lieferung ist gestern angekommen, aber zwei Teile fehlen noch.",
    "SELECT name, COUNT(*) FROM orders WHERE paid = 0 GROUP BY name;",
    "refund",
    "The committee met on Tuesday and agreed to postpone the vote until the auditors had finished "
    "their report, which is expected before the end of the quarter.",
    "Wie spät ist es?",
    "机器学习模型需要大量的数据。",
    "ok :-)",
    "A slow cooker recipe for lentil soup with carrots, cumin and a little lemon juice.",
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0",
    "Où se trouve la gare la plus proche, s'il vous plaît ?",
    "Cells divide, and their daughters inherit a copy of the genome.",
    "0",
    "Спасибо, всё работает.",
    "The cheapest flight from Lisbon to Oslo in the second week of March",
    "He said that she said that nobody had said anything.",
};

}  // namespace

std::span<const std::string_view> PeakTexts() { return kPeaks; }
std::span<const std::string_view> CheckTexts() { return kChecks; }

}  // namespace tutti::model
