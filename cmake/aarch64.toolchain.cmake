# Cross toolchain for Debian's crossbuild-essential-arm64 packages plus arm64 multiarch libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# Against the arm64 loader and libc of Debian's multiarch packages, which belong together; with -L
# /usr/aarch64-linux-gnu the cross packages' loader would meet the multiarch libc.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
