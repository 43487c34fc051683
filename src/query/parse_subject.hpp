// The part that conditions and lists have in common: subjects and the functions around them.
#pragma once

#include "base/result.hpp"
#include "query/lexer.hpp"
#include "query/show.hpp"
#include "query/subject.hpp"

namespace vitrine::query {

struct WrittenSubject {
  Subject subject;
  Format format = Format::plain;
};

/// Takes a subject: `arg0`, `price`, `label["http.route"]`, `str(arg1)`, `bytes(arg1, arg2)`,
/// `hex(pid)`. The token ahead is its first. Errors: usage.
Result<WrittenSubject> take_subject(Lexer& lexer);

}  // namespace vitrine::query
