// ClickHouse over HTTP: rows as lines of JSON, inserted once each, and what its errors mean.
//
// A request is one INSERT of at most as many rows as ClickHouse puts in one block: it is inserted
// whole or not at all. Its token (insert_deduplication_token) is made of its bytes, so that a table
// that remembers tokens ignores a request that comes again, after a response was lost or by the next
// process from the spool: a replicated table, or a MergeTree with
// non_replicated_deduplication_window.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "export/judgement.hpp"

namespace vitrine::exporter::clickhouse {

inline constexpr std::string_view default_table = "samples";

/// The statement that inserts into the table that a URL's path names: "/TABLE", "/DATABASE.TABLE",
/// or "/" for default_table. Errors: usage.
Result<std::string> insert_statement(std::string_view path);

/// Settings of the statement, as the query of a URL.
inline constexpr std::string_view settings =
    "async_insert=0&insert_deduplicate=1&wait_end_of_query=1&input_format_skip_unknown_fields=1";

/// `url` with the token of a body. The same bytes have the same token.
std::string with_token(const std::string& url, std::string_view body);

/// By ClickHouse's exception codes: what passes (too many parts, no memory, a replica that is not
/// there) is tried again, and so is a table that is missing, for a while.
Judgement judge(const Response& response);

}  // namespace vitrine::exporter::clickhouse
