/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the profiling program in the kernel and its loader tell each other (see wire.h). */
#pragma once

#include "trace_wire.h"
