#include "log.hpp"

#include "joblog.h"
#include "said.hpp"

namespace jobd {

void log_line(const char* text) {
  SAY("joblog:line", "\"%s\"", text);
  JOBLOG_LINE(text);
}

}  // namespace jobd
