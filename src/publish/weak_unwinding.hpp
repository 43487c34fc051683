// For the file that callbacks may throw through. The shared libraries must not need libstdc++ for it: a
// program in which exceptions are thrown has it already. Without it a frame has no personality, which
// unwinders pass by. (_Unwind_Resume: without_libstdcxx.cpp.)
#pragma once

#if !VITRINE_PUBLISH_STATIC
__asm__(".weak __gxx_personality_v0\n");
#endif
