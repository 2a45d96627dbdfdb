# Runs while `cmake --install` does, which may be given another prefix than `cmake -B` was: files that name places of
# the installation are filled in here, not when the build is configured. In: CMAKE_INSTALL_BINDIR, CMAKE_INSTALL_LIBDIR,
# CMAKE_INSTALL_SYSCONFDIR, RPCRDMA_SHARED_LIBRARY (its name; empty: none), RPCRDMA_FILLED_IN (a folder for the results).
cmake_minimum_required(VERSION 3.25)

# Sets `result` to where a folder of the installation is.
function(rpcrdma_place folder result)
  if(IS_ABSOLUTE "${folder}")
    set(${result} "${folder}" PARENT_SCOPE)
  elseif(folder MATCHES "^etc(/|$)" AND CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(${result} "/${folder}" PARENT_SCOPE)  # as GNUInstallDirs has it
  else()
    set(${result} "${CMAKE_INSTALL_PREFIX}/${folder}" PARENT_SCOPE)
  endif()
endfunction()

# rpcrdma_fill_in(FROM FOLDER [PROGRAM] [UNLESS_THERE]): installs FROM, whose name ends in .in, into a folder of the
# installation. PROGRAM: it can be executed. UNLESS_THERE: what somebody has written stays.
function(rpcrdma_fill_in from folder)
  rpcrdma_place("${folder}" folder)
  rpcrdma_place("${CMAKE_INSTALL_BINDIR}" CMAKE_INSTALL_FULL_BINDIR)
  rpcrdma_place("${CMAKE_INSTALL_LIBDIR}" CMAKE_INSTALL_FULL_LIBDIR)
  rpcrdma_place("${CMAKE_INSTALL_SYSCONFDIR}" settings)
  set(RPCRDMA_CONFIG "${settings}/rpcrdma/serve.toml")
  set(RPCRDMA_PROBED "${CMAKE_INSTALL_FULL_BINDIR}/rpcrdma")
  if(RPCRDMA_SHARED_LIBRARY)
    set(RPCRDMA_PROBED "${CMAKE_INSTALL_FULL_LIBDIR}/${RPCRDMA_SHARED_LIBRARY}")
  endif()
  get_filename_component(name "${from}" NAME_WLE)
  if("UNLESS_THERE" IN_LIST ARGN AND EXISTS "$ENV{DESTDIR}${folder}/${name}")
    return()
  endif()
  configure_file("${from}" "${RPCRDMA_FILLED_IN}/${name}" @ONLY)
  set(mode OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  if("PROGRAM" IN_LIST ARGN)
    list(APPEND mode OWNER_EXECUTE GROUP_EXECUTE WORLD_EXECUTE)
  endif()
  file(INSTALL "${RPCRDMA_FILLED_IN}/${name}" DESTINATION "${folder}" FILE_PERMISSIONS ${mode})
endfunction()
