// Split: a model in several files, "NAME-00001-of-00003.gguf" and so on, read as one.
//
// The first part holds the metadata; each part holds a table of its own tensors and their bytes.
// OpenSplit makes one header of all tables, in memory, and reads a tensor's bytes from the part
// that holds them, so that every reader of a GGUF also reads split ones. Immutable; any thread; the
// parts stay open. Source: llama.cpp's gguf-split.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "files/source.h"
#include "gguf/header.h"

namespace tutti::gguf {

// Each part stays open while the model is loaded.
inline constexpr uint64_t kMaxSplitParts = 512;

// split.count of a file, 1 where it is whole. Errors: gguf_type, gguf_limit.
Result<uint64_t> SplitCount(const Header& header);

// "NAME-00002-of-00003.gguf" of a path that ends as any part of `count`; nothing for another path.
std::optional<std::string> SplitPath(std::string_view path, uint64_t part, uint64_t count);

// All parts as one file. `first` was opened at `path` and has `header`. Errors: gguf_split for a
// part that is not the first, that is missing or not of this model, or for tensors that are
// missing; those of files::OpenSource and Header::Parse, with the part's name.
Result<std::shared_ptr<const files::Source>> OpenSplit(const std::string& path,
                                                       const std::string& root,
                                                       std::shared_ptr<const files::Source> first,
                                                       const Header& header);

}  // namespace tutti::gguf
