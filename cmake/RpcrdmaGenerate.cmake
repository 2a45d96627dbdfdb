# rpcrdma_generate(TARGET foo FILES foo.x ... [NAMESPACE ns] [FIELDS] [RANDOM] [EXTRAS_ONLY]
#                  [INCLUDE_DIRECTORIES dir...] [DEFINITIONS NAME=NUMBER...] [IMPORTS file.x...])
#
# Makes C++ from .x files with rpcrdma-gen (docs/idl.md) and adds it to the target, which can then
# include "foo.h" and is linked with rpcrdma::rpcrdma. A file is made again when the .x file, one that
# it includes or the compiler is newer. INCLUDE_DIRECTORIES, DEFINITIONS and IMPORTS are -I, -D and
# --import of rpcrdma-gen. Of a file that is called like a header of C, time.x, time_.h is made. FIELDS makes foo_fields.h too, with to_string() and ==; RANDOM makes that and
# foo_random.h, with random values for tests. EXTRAS_ONLY makes these headers alone, for a target that
# links another with foo.h and foo.cc. The target may be of another directory, and linked in either way
# of target_link_libraries().
#
# A project that is compiled for another architecture runs the rpcrdma-gen of this machine: RPCRDMA_GEN is its path, by
# default that in PATH; with CMAKE_CROSSCOMPILING_EMULATOR and without RPCRDMA_GEN, that of the other architecture.
# Depfiles name their targets as ninja does, whatever the project's cmake_minimum_required() says.
cmake_policy(PUSH)
cmake_policy(SET CMP0116 NEW)

# A project that has this one in its tree does not see the variable.
set_property(GLOBAL PROPERTY rpcrdma_version "${rpcrdma_VERSION}")

# Ends the configuration unless RPCRDMA_GEN runs here and is of this library's version, whose headers its code includes.
function(rpcrdma_check_generator)
  get_property(version GLOBAL PROPERTY rpcrdma_version)
  set(output "it does not run here")
  if(EXISTS "${RPCRDMA_GEN}")
    execute_process(COMMAND "${RPCRDMA_GEN}" --version OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(output STREQUAL "")  # a program of another architecture
      set(output "it does not run here")
    endif()
  endif()
  if(NOT output STREQUAL "rpcrdma-gen ${version}")
    message(FATAL_ERROR "RPCRDMA_GEN is ${RPCRDMA_GEN}, which should be the rpcrdma-gen ${version} of this machine; "
                        "asked for its version: ${output}")
  endif()
endfunction()

# Sets `command` to what runs rpcrdma-gen on this machine, empty if nothing does, and `needed` to the target or file that has
# to be made before.
function(rpcrdma_generator command needed)
  set(found "")
  set(words "")
  if(NOT RPCRDMA_GEN AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    if(TARGET rpcrdma::gen)
      get_target_property(is_installed rpcrdma::gen IMPORTED)
      set(found rpcrdma::gen)
      set(words rpcrdma::gen)
      # In front of a program of the same tree CMake puts the emulator itself.
      if(is_installed AND CMAKE_CROSSCOMPILING)
        set(words ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:rpcrdma::gen>)
      endif()
    endif()
  else()
    # It also takes a path on the command line for one in the folder where CMake runs.
    find_program(RPCRDMA_GEN rpcrdma-gen NO_CMAKE_FIND_ROOT_PATH
                 DOC "The rpcrdma-gen of this machine, for compiling for another architecture")
    if(NOT RPCRDMA_GEN)
      message(FATAL_ERROR "This build is for another architecture, whose rpcrdma-gen does not run here: build rpcrdma for this "
                          "machine too, and set RPCRDMA_GEN to the path of its rpcrdma-gen; or install qemu-user, and set "
                          "CMAKE_CROSSCOMPILING_EMULATOR")
    endif()
    rpcrdma_check_generator()
    set(found "${RPCRDMA_GEN}")
    set(words "${RPCRDMA_GEN}")
  endif()
  set(${command} "${words}" PARENT_SCOPE)
  set(${needed} "${found}" PARENT_SCOPE)
endfunction()

function(rpcrdma_generate)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "FIELDS;RANDOM;EXTRAS_ONLY" "TARGET;NAMESPACE"
                        "FILES;INCLUDE_DIRECTORIES;DEFINITIONS;IMPORTS")
  # As file_stem() of gen/names.cc has them, which a test compares.
  set(c_headers
    aio alloca argp ar assert byteswap complex cpio crypt ctype dirent dlfcn elf endian envz err errno error
    execinfo fcntl features fenv float fmtmsg fnmatch fstab ftw getopt glob grp iconv ifaddrs inttypes iso646
    langinfo libgen libintl limits link locale malloc math memory mntent monetary mqueue ndbm netdb nl_types
    obstack paths poll pthread pty pwd regex resolv sched search semaphore setjmp shadow signal spawn stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings stropts syscall syslog tar
    termio termios tgmath threads time trace ucontext ulimit unistd utime utmp utmpx values wait wchar wctype
    wordexp)
  if(NOT TARGET "${ARG_TARGET}" OR NOT ARG_FILES OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rpcrdma_generate(TARGET <a target> FILES <.x files> "
                        "[NAMESPACE <name>] [FIELDS] [RANDOM] [EXTRAS_ONLY] [INCLUDE_DIRECTORIES <folders>] "
                        "[DEFINITIONS <NAME=NUMBER>] [IMPORTS <.x files>]); got: ${ARGV}")
  endif()
  rpcrdma_generator(generator needed)
  if(NOT generator)
    message(FATAL_ERROR "rpcrdma_generate() needs rpcrdma-gen, which this installation lacks: "
                        "install rpcrdma again with RPCRDMA_BUILD_TOOLS=ON")
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET}.generated")
  set(options "")
  if(ARG_NAMESPACE)
    list(APPEND options --namespace "${ARG_NAMESPACE}")
  endif()
  if(ARG_FIELDS)
    list(APPEND options --fields)
  endif()
  if(ARG_RANDOM)
    list(APPEND options --random)
  endif()
  if(ARG_EXTRAS_ONLY)
    list(APPEND options --extras-only)
  endif()
  foreach(each IN LISTS ARG_INCLUDE_DIRECTORIES)
    cmake_path(ABSOLUTE_PATH each BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    list(APPEND options -I "${each}")
  endforeach()
  foreach(each IN LISTS ARG_DEFINITIONS)
    list(APPEND options -D "${each}")
  endforeach()
  foreach(each IN LISTS ARG_IMPORTS)
    cmake_path(ABSOLUTE_PATH each BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    list(APPEND options --import "${each}")
  endforeach()
  set(stems "")
  foreach(file IN LISTS ARG_FILES)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET file STEM LAST_ONLY stem)
    if(stem IN_LIST c_headers)
      string(APPEND stem "_")
    endif()
    list(APPEND stems "${stem}")
    set(made "")
    if(NOT ARG_EXTRAS_ONLY)
      list(APPEND made "${folder}/${stem}.h" "${folder}/${stem}.cc")
    endif()
    if(ARG_FIELDS OR ARG_RANDOM)
      list(APPEND made "${folder}/${stem}_fields.h")
    endif()
    if(ARG_RANDOM)
      list(APPEND made "${folder}/${stem}_random.h")
    endif()
    # Files that stay the same keep their time; the stamp says that they were looked at.
    add_custom_command(OUTPUT "${folder}/${stem}.stamp"
      BYPRODUCTS ${made}
      COMMAND ${generator} "${file}" -o "${folder}" ${options} --depfile "${folder}/${stem}.stamp.d"
      COMMAND "${CMAKE_COMMAND}" -E touch "${folder}/${stem}.stamp"
      DEPENDS "${file}" ${needed}
      DEPFILE "${folder}/${stem}.stamp.d"
      COMMENT "rpcrdma-gen ${stem}.x" VERBATIM)
    target_sources(${ARG_TARGET} PRIVATE "${folder}/${stem}.stamp" ${made})
  endforeach()
  # Another directory knows the files, but not the rule that makes them.
  get_target_property(home ${ARG_TARGET} SOURCE_DIR)
  if(NOT home STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    list(TRANSFORM stems REPLACE "(.+)" "${folder}/\\1.stamp" OUTPUT_VARIABLE stamps)
    string(MD5 id "${folder};${stems}")
    add_custom_target(rpcrdma_generate_${id} DEPENDS ${stamps})
    add_dependencies(${ARG_TARGET} rpcrdma_generate_${id})
  endif()
  get_target_property(type ${ARG_TARGET} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set(scope PRIVATE)
  else()
    set(scope PUBLIC)
    set_property(TARGET ${ARG_TARGET} APPEND PROPERTY INTERFACE_LINK_LIBRARIES rpcrdma::rpcrdma)
  endif()
  target_include_directories(${ARG_TARGET} ${scope} "$<BUILD_INTERFACE:${folder}>")
  # Not by target_link_libraries(), whose two ways cannot be mixed: the caller has one already.
  set_property(TARGET ${ARG_TARGET} APPEND PROPERTY LINK_LIBRARIES rpcrdma::rpcrdma)
endfunction()
cmake_policy(POP)
