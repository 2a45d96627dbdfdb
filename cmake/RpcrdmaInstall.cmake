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
# What a static library needs is for every program that is linked with it; a shared one has it itself.
if(BUILD_SHARED_LIBS)
  set(RPCRDMA_PC_CFLAGS " -DRPCRDMA_SHARED")
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

# The service: its unit, its settings and the socket of its TCP side.
set(RPCRDMA_UNIT_DIR "lib/systemd/system" CACHE STRING "Where units of systemd are installed")
set(RPCRDMA_CONFIG "${CMAKE_INSTALL_FULL_SYSCONFDIR}/rpcrdma/serve.toml")
foreach(name rpcrdma.service rpcrdma.socket serve.toml)
  if(name STREQUAL "serve.toml")
    configure_file("${PROJECT_SOURCE_DIR}/packaging/${name}.in" "${PROJECT_BINARY_DIR}/packaging/${name}" @ONLY)
  else()
    configure_file("${PROJECT_SOURCE_DIR}/packaging/systemd/${name}.in" "${PROJECT_BINARY_DIR}/packaging/${name}" @ONLY)
  endif()
endforeach()
# Scripts for the probes, which are where the library's code is.
if(BUILD_SHARED_LIBS)
  set(RPCRDMA_PROBED "${CMAKE_INSTALL_FULL_LIBDIR}/librpcrdma.so.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
else()
  set(RPCRDMA_PROBED "${CMAKE_INSTALL_FULL_BINDIR}/rpcrdma")
endif()
foreach(name latency.bt connections.bt)
  configure_file("${PROJECT_SOURCE_DIR}/packaging/bpftrace/${name}.in" "${PROJECT_BINARY_DIR}/packaging/bpftrace/${name}" @ONLY)
  if(TARGET rpcrdma_command AND RPCRDMA_PROBES_FOUND)
    install(PROGRAMS "${PROJECT_BINARY_DIR}/packaging/bpftrace/${name}" DESTINATION ${CMAKE_INSTALL_DATADIR}/rpcrdma/bpftrace)
  endif()
endforeach()
# mount(8) looks for it by the type fuse.rpcrdma.
configure_file("${PROJECT_SOURCE_DIR}/packaging/fuse/mount.fuse.rpcrdma.in" "${PROJECT_BINARY_DIR}/packaging/mount.fuse.rpcrdma" @ONLY)
if(TARGET rpcrdma_command AND RPCRDMA_FUSE_FOUND)
  install(PROGRAMS "${PROJECT_BINARY_DIR}/packaging/mount.fuse.rpcrdma" DESTINATION ${CMAKE_INSTALL_SBINDIR})
endif()
if(TARGET rpcrdma_command AND RPCRDMA_SYSTEMD_FOUND)
  install(FILES "${PROJECT_BINARY_DIR}/packaging/rpcrdma.service" "${PROJECT_BINARY_DIR}/packaging/rpcrdma.socket"
          DESTINATION "${RPCRDMA_UNIT_DIR}")
endif()
if(TARGET rpcrdma_command)
  # Below the prefix that `cmake --install` is given, and never over settings that somebody has written.
  install(CODE "
    set(folder \"${CMAKE_INSTALL_SYSCONFDIR}/rpcrdma\")
    if(NOT IS_ABSOLUTE \"\${folder}\")
      set(folder \"\${CMAKE_INSTALL_PREFIX}/\${folder}\")
    endif()
    if(NOT EXISTS \"\$ENV{DESTDIR}\${folder}/serve.toml\")
      file(INSTALL \"${PROJECT_BINARY_DIR}/packaging/serve.toml\" DESTINATION \"\${folder}\")
    endif()")
endif()
