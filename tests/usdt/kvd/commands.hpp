#pragma once
#include "session.hpp"

/// Does one line's command, and answers. False: the session is over.
bool command(Session& session, char* line);
