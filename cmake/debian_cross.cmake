# Toolchain for another architecture of Debian, with Debian's cross compilers:
#
#   cmake -B build-s390x --toolchain cmake/debian_cross.cmake -D RPCRDMA_CROSS=s390x-linux-gnu [-D CMAKE_SYSROOT=FOLDER]
#
# RPCRDMA_CROSS is the GNU name of the architecture, by which the compiler is called (package g++-s390x-linux-gnu). The
# libraries come from CMAKE_SYSROOT, a folder with the root of that architecture's file system, or without it from the packages
# that `dpkg --add-architecture` lets apt-get install beside this machine's own (libfmt-dev:s390x). Where qemu-user is
# installed, the tests run under it, and so does rpcrdma-gen while it generates.
if(NOT RPCRDMA_CROSS MATCHES "^([a-z0-9_]+)-linux-gnu[a-z0-9]*$")
  message(FATAL_ERROR "debian_cross.cmake needs -D RPCRDMA_CROSS=NAME, the GNU name of an architecture: s390x-linux-gnu, "
                      "aarch64-linux-gnu, arm-linux-gnueabihf")
endif()
# CMake reads this file again for each check of the compiler.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RPCRDMA_CROSS)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${CMAKE_MATCH_1}")
set(CMAKE_C_COMPILER "${RPCRDMA_CROSS}-gcc")
set(CMAKE_CXX_COMPILER "${RPCRDMA_CROSS}-g++")
set(CMAKE_LIBRARY_ARCHITECTURE "${RPCRDMA_CROSS}")
# Programs that run while building are this machine's, everything else is the other's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
if(CMAKE_SYSROOT)
  set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
  set(rpcrdma_root "${CMAKE_SYSROOT}")
  set(ENV{PKG_CONFIG_SYSROOT_DIR} "${CMAKE_SYSROOT}")
else()
  set(rpcrdma_root "")
endif()
set(ENV{PKG_CONFIG_LIBDIR} "${rpcrdma_root}/usr/lib/${RPCRDMA_CROSS}/pkgconfig:${rpcrdma_root}/usr/share/pkgconfig")
# Where qemu-user looks for the program's loader and libraries; g++-*-linux-gnu brings some for those without a sysroot.
find_program(RPCRDMA_QEMU "qemu-${CMAKE_SYSTEM_PROCESSOR}")
mark_as_advanced(RPCRDMA_QEMU)
if(RPCRDMA_QEMU AND CMAKE_SYSROOT)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${RPCRDMA_QEMU};-L;${CMAKE_SYSROOT}")
elseif(RPCRDMA_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${RPCRDMA_QEMU};-L;/usr/${RPCRDMA_CROSS}")
endif()
