#pragma once

namespace jobd {

/// Writes a line of the server's log.
void log_line(const char* text);

}  // namespace jobd
