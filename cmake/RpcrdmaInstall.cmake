# `cmake --install`: the library, its public headers, the command and a package configuration.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS rpcrdma EXPORT rpcrdmaTargets DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rpcrdma"
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(RPCRDMA_BUILD_TOOLS)
  install(TARGETS rpcrdma_gen_command EXPORT rpcrdmaTargets
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES "${PROJECT_SOURCE_DIR}/gen/rpcrdma-gen.1" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(EXPORT rpcrdmaTargets NAMESPACE rpcrdma:: FILE rpcrdmaTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/rpcrdmaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/rpcrdmaConfig.cmake"
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rpcrdmaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rpcrdmaConfig.cmake"
        "${PROJECT_BINARY_DIR}/rpcrdmaConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/RpcrdmaGenerate.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rpcrdma)
# The way from the .pc file to the prefix, so that `cmake --install --prefix` may choose another one.
file(RELATIVE_PATH RPCRDMA_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
# A static library's needs are those of every program that is linked with it; a shared one has them itself. An archive may
# lie beside it, as in Debian's package, for `pkg-config --static`.
if(BUILD_SHARED_LIBS)
  set(RPCRDMA_PC_CFLAGS " -DRPCRDMA_SHARED")
  # By name: a program of the shared library needs none of these, so that their .pc files may be missing.
  set(RPCRDMA_PC_LIBS_PRIVATE "-lfmt")
  if(RPCRDMA_ISAL_FOUND)
    string(APPEND RPCRDMA_PC_LIBS_PRIVATE " -lisal")
  endif()
else()
  set(RPCRDMA_PC_REQUIRES "fmt")
  if(RPCRDMA_ISAL_FOUND)
    string(APPEND RPCRDMA_PC_REQUIRES " libisal")
  endif()
endif()
if(RPCRDMA_STD_EXPECTED)
  string(APPEND RPCRDMA_PC_CFLAGS " -DRPCRDMA_STD_EXPECTED")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/rpcrdma.pc.in" "${PROJECT_BINARY_DIR}/rpcrdma.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rpcrdma.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET rpcrdma_nfs_ceph)
  install(TARGETS rpcrdma_nfs_ceph LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rpcrdma)
endif()
if(TARGET rpcrdma_krb5)
  install(TARGETS rpcrdma_krb5 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rpcrdma)
endif()
if(TARGET rpcrdma_verbs)
  install(TARGETS rpcrdma_verbs LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rpcrdma)
endif()
# A program finds a shared library from its own place, wherever the prefix is.
function(rpcrdma_find_library_from target folder)
  if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH way "/prefix/${folder}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${way}")
  endif()
endfunction()
if(TARGET rpcrdma_tirpc)
  rpcrdma_find_library_from(rpcrdma_tirpc "${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS rpcrdma_tirpc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES "${PROJECT_SOURCE_DIR}/adapters/tirpc/include/rpcrdma-tirpc.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  configure_file("${CMAKE_CURRENT_LIST_DIR}/rpcrdma-tirpc.pc.in" "${PROJECT_BINARY_DIR}/rpcrdma-tirpc.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/rpcrdma-tirpc.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(TARGET rpcrdma_command)
  rpcrdma_find_library_from(rpcrdma_command "${CMAKE_INSTALL_BINDIR}")
  install(FILES "${PROJECT_SOURCE_DIR}/tools/wireshark/rpcrdma2.lua"
          DESTINATION ${CMAKE_INSTALL_DATADIR}/rpcrdma/wireshark)
  install(TARGETS rpcrdma_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET rpcrdma_bench_helper)
    rpcrdma_find_library_from(rpcrdma_bench_helper "${CMAKE_INSTALL_LIBEXECDIR}/rpcrdma")
    install(TARGETS rpcrdma_bench_helper RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/rpcrdma)
  endif()
  install(DIRECTORY "${PROJECT_BINARY_DIR}/share/man/man1" "${PROJECT_BINARY_DIR}/share/man/man5"
          DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY "${PROJECT_BINARY_DIR}/share/bash-completion"
                    "${PROJECT_BINARY_DIR}/share/zsh" DESTINATION ${CMAKE_INSTALL_DATADIR})
endif()

# The service: its unit, its settings and the socket of its TCP side; scripts for the probes; and the program that
# mount(8) looks for by the type fuse.rpcrdma. They name places of the installation. Tests use those of this build, whose
# prefix is the one of `cmake -B`.
set(RPCRDMA_UNIT_DIR "lib/systemd/system" CACHE STRING "Where units of systemd are installed")
set(RPCRDMA_CONFIG "${CMAKE_INSTALL_FULL_SYSCONFDIR}/rpcrdma/serve.toml")
set(shared_library "")
set(RPCRDMA_PROBED "${CMAKE_INSTALL_FULL_BINDIR}/rpcrdma")
if(BUILD_SHARED_LIBS)  # the probes are where the library's code is
  set(shared_library "librpcrdma.so.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  set(RPCRDMA_PROBED "${CMAKE_INSTALL_FULL_LIBDIR}/${shared_library}")
endif()
foreach(file systemd/rpcrdma.service systemd/rpcrdma.socket serve.toml fuse/mount.fuse.rpcrdma bpftrace/latency.bt
             bpftrace/connections.bt)
  string(REGEX REPLACE "^(systemd|fuse)/" "" name "${file}")
  configure_file("${PROJECT_SOURCE_DIR}/packaging/${file}.in" "${PROJECT_BINARY_DIR}/packaging/${name}" @ONLY)
endforeach()
install(CODE "
  set(CMAKE_INSTALL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
  set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
  set(CMAKE_INSTALL_SYSCONFDIR \"${CMAKE_INSTALL_SYSCONFDIR}\")
  set(RPCRDMA_SHARED_LIBRARY \"${shared_library}\")
  set(RPCRDMA_FILLED_IN \"${PROJECT_BINARY_DIR}/packaging/filled-in\")
  include(\"${CMAKE_CURRENT_LIST_DIR}/RpcrdmaFillIn.cmake\")")
# rpcrdma_install_filled_in(FILE FOLDER ...): has rpcrdma_fill_in() install packaging/FILE.in.
function(rpcrdma_install_filled_in file folder)
  install(CODE "rpcrdma_fill_in(\"${PROJECT_SOURCE_DIR}/packaging/${file}.in\" \"${folder}\" ${ARGN})")
endfunction()
if(TARGET rpcrdma_command)
  rpcrdma_install_filled_in(serve.toml "${CMAKE_INSTALL_SYSCONFDIR}/rpcrdma" UNLESS_THERE)
  if(RPCRDMA_PROBES_FOUND)
    rpcrdma_install_filled_in(bpftrace/latency.bt "${CMAKE_INSTALL_DATADIR}/rpcrdma/bpftrace" PROGRAM)
    rpcrdma_install_filled_in(bpftrace/connections.bt "${CMAKE_INSTALL_DATADIR}/rpcrdma/bpftrace" PROGRAM)
  endif()
  if(RPCRDMA_FUSE_FOUND)
    rpcrdma_install_filled_in(fuse/mount.fuse.rpcrdma "${CMAKE_INSTALL_SBINDIR}" PROGRAM)
  endif()
  if(RPCRDMA_SYSTEMD_FOUND)
    rpcrdma_install_filled_in(systemd/rpcrdma.service "${RPCRDMA_UNIT_DIR}")
    rpcrdma_install_filled_in(systemd/rpcrdma.socket "${RPCRDMA_UNIT_DIR}")
  endif()
endif()
