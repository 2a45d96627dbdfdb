# rpcrdma_module(NAME xdr DEPENDS base [LINKS fmt::fmt] SOURCES reader.cc ... [TESTS reader_test.cc ...]
#                [TEST_LINKS ...])
#
# One module = one folder = one static library `rpcrdma_<name>`. Its unit tests link only what the
# module declares, so that an upward call does not link. Sources are listed by hand. A header-only
# module gives no SOURCES.

add_library(rpcrdma_common_flags INTERFACE)
set(rpcrdma_language cxx_std_20)
if(RPCRDMA_STD_EXPECTED)
  set(rpcrdma_language cxx_std_23)
  target_compile_definitions(rpcrdma_common_flags INTERFACE RPCRDMA_STD_EXPECTED)
endif()
target_compile_features(rpcrdma_common_flags INTERFACE ${rpcrdma_language})
# On 32 bits files may be larger than 2 GiB, and times later than 2038. Targets that hand times to a library of the system's
# (libfuse, libtirpc) set RPCRDMA_SYSTEM_TIME, and have times as the compiler and that library do.
if(CMAKE_SIZEOF_VOID_P EQUAL 4)
  target_compile_definitions(rpcrdma_common_flags INTERFACE
    _FILE_OFFSET_BITS=64 $<$<NOT:$<BOOL:$<TARGET_PROPERTY:RPCRDMA_SYSTEM_TIME>>>:_TIME_BITS=64>)
endif()
target_compile_options(rpcrdma_common_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wswitch-enum
  -fno-omit-frame-pointer)
if(RPCRDMA_SHARED_MODULES)
  if(BUILD_SHARED_LIBS)
    message(FATAL_ERROR "RPCRDMA_SHARED_MODULES shows the modules everything, BUILD_SHARED_LIBS hides it: choose one")
  endif()
  set(CMAKE_LINK_DEPENDS_NO_SHARED ON)
  set(rpcrdma_module_type SHARED)
else()
  target_compile_options(rpcrdma_common_flags INTERFACE -fvisibility=hidden -fvisibility-inlines-hidden)
  set(rpcrdma_module_type STATIC)
endif()
# What RPCRDMA_EXPORT marks is called within the library as directly as everything else: nothing is
# meant to take its place. (Clang's default.)
if(BUILD_SHARED_LIBS)
  target_compile_definitions(rpcrdma_common_flags INTERFACE RPCRDMA_SHARED)
  target_compile_options(rpcrdma_common_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
endif()
# It links a program with sanitizers, or one for a debugger, in a third of the usual linker's time. GCC's LTO needs its own.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR (CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT RPCRDMA_LTO))
  find_program(RPCRDMA_LLD ld.lld)
  mark_as_advanced(RPCRDMA_LLD)
  if(RPCRDMA_LLD)
    target_link_options(rpcrdma_common_flags INTERFACE -fuse-ld=lld)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
  # GCC 12's std::stable_sort() calls a function that is deprecated, which these report at our call.
  target_compile_options(rpcrdma_common_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(RPCRDMA_BATCHES)
  # GCC looks for what it no longer needs from 128 MB on, which takes a fifteenth of a batch's time; the largest stays below 600 MB.
  target_compile_options(rpcrdma_common_flags INTERFACE "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=700000>")
endif()
if(RPCRDMA_WERROR)
  target_compile_options(rpcrdma_common_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # At -O3, which CMake's Release has, GCC 12 takes the operator+ of std::string for an overlap (GCC's bug 105651).
  target_compile_options(rpcrdma_common_flags INTERFACE -Wno-restrict)
endif()
if(RPCRDMA_COVERAGE)
  target_compile_options(rpcrdma_common_flags INTERFACE --coverage)
  target_link_options(rpcrdma_common_flags INTERFACE --coverage)
endif()

# Of what compiles: the library, the programs, and what is generated.
add_library(rpcrdma_flags INTERFACE)
target_link_libraries(rpcrdma_flags INTERFACE rpcrdma_common_flags)
# Of the tests, and of what only they use.
add_library(rpcrdma_test_flags INTERFACE)
target_link_libraries(rpcrdma_test_flags INTERFACE rpcrdma_common_flags)
# Of what reads command lines, prints and measures: what a peer sent gets there through the library and apps.
add_library(rpcrdma_command_flags INTERFACE)
target_link_libraries(rpcrdma_command_flags INTERFACE rpcrdma_common_flags)
# Flags of the library's modules, which GCC optimises across files: a NULL call takes a fifth less time so.
# rpcrdma_library() makes one object of machine code of them, and programs link that. The objects of the modules hold only
# what the optimiser reads: with machine code as well, GCC would generate code for each file twice. A build with tests, which
# link modules, needs both.
add_library(rpcrdma_library_flags INTERFACE)
target_link_libraries(rpcrdma_library_flags INTERFACE rpcrdma_flags)
if(RPCRDMA_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(RPCRDMA_LTO_USED ON)
  if(RPCRDMA_BUILD_TESTS OR BUILD_SHARED_LIBS)
    target_compile_options(rpcrdma_library_flags INTERFACE -flto=auto -ffat-lto-objects)
    target_link_options(rpcrdma_common_flags INTERFACE -fno-lto)
  else()
    target_compile_options(rpcrdma_library_flags INTERFACE -flto=auto -fno-fat-lto-objects)
    set(CMAKE_AR "${CMAKE_CXX_COMPILER_AR}")
    set(CMAKE_RANLIB "${CMAKE_CXX_COMPILER_RANLIB}")
  endif()
  # Reads what the optimiser reads. That of this very compiler: another one's knows neither its version nor its architecture.
  set(rpcrdma_nm "gcc-nm")
  if(CMAKE_CXX_COMPILER_AR MATCHES "gcc-ar")
    string(REGEX REPLACE "gcc-ar([^/]*)$" "gcc-nm\\1" rpcrdma_nm "${CMAKE_CXX_COMPILER_AR}")
  endif()
  find_program(RPCRDMA_LTO_NM "${rpcrdma_nm}" REQUIRED)
  mark_as_advanced(RPCRDMA_LTO_NM)
else()
  set(RPCRDMA_LTO_USED OFF)
endif()

if(RPCRDMA_SANITIZE)
  set(sanitize_tests "-fsanitize=${RPCRDMA_SANITIZE}")
  set(sanitize_commands "-fsanitize=${RPCRDMA_SANITIZE}")
  if(RPCRDMA_SANITIZE STREQUAL "address,undefined")
    # Tests were half of what make check compiles, and UBSan and optimising two thirds of that
    # (backward_test.cc: 21.6 s with both, 7.5 s without). What they test has UBSan; of that the library
    # is optimised, since calls by the million go through it, and the simulator, since it runs for minutes.
    # A report names a test's functions without their lines, which took an eighth of the time; the library has lines.
    set(sanitize_tests -fsanitize=address -g0)
    # The same holds for the command, whose input is its user's; a peer's reaches it through the library and apps.
    set(sanitize_commands -fsanitize=address)
    set(rpcrdma_busy_options -O1)
    # Half a million addresses would be relocated in each of thousands of processes: 10 ms.
    set(fixed_place $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
    target_link_options(rpcrdma_test_flags INTERFACE ${fixed_place})
    target_link_options(rpcrdma_command_flags INTERFACE ${fixed_place})
  endif()
  target_compile_options(rpcrdma_flags INTERFACE -fsanitize=${RPCRDMA_SANITIZE} -fno-sanitize-recover=all)
  target_compile_options(rpcrdma_test_flags INTERFACE ${sanitize_tests} -fno-sanitize-recover=all)
  target_compile_options(rpcrdma_command_flags INTERFACE ${sanitize_commands} -fno-sanitize-recover=all)
  # GCC takes what the sanitizers weave in for uses of uninitialised values; builds without them check.
  target_compile_options(rpcrdma_common_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(rpcrdma_common_flags INTERFACE -fsanitize=${RPCRDMA_SANITIZE})
endif()
if(CMAKE_SIZEOF_VOID_P EQUAL 4)
  # Tests draw sizes from random numbers of 64 bits, and move iterators by sizes. The code under test has no such conversions.
  target_compile_options(rpcrdma_test_flags INTERFACE -Wno-error=conversion -Wno-error=sign-conversion)
endif()
# Tests insert into vectors of std::byte, where GCC 12 at -O2 sees overflows that are not there; the library's own code is
# checked without this.
target_compile_options(rpcrdma_test_flags INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)

# Programs that read a command line or a .x file once, and print: GCC takes a quarter longer at -O2, and they are no quicker.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(rpcrdma_quick_options -O1)
endif()

set_property(GLOBAL PROPERTY RPCRDMA_MODULES "")

# With RPCRDMA_PRECOMPILE, lets a program of tests, or what only they use, read GoogleTest, the fixtures and what these
# include as the compiler wrote them down once: that is half of the time that a file of tests takes to compile.
function(rpcrdma_precompile target)
  if(NOT RPCRDMA_PRECOMPILE)
    return()
  endif()
  set(headers rpcrdma_test_headers)
  if(NOT TARGET ${headers})
    file(WRITE "${PROJECT_BINARY_DIR}/${headers}.cc" "")
    add_library(${headers} OBJECT "${PROJECT_BINARY_DIR}/${headers}.cc")
    target_include_directories(${headers} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include"
                               "${PROJECT_SOURCE_DIR}/tests")
    target_link_libraries(${headers} PRIVATE rpcrdma_test_flags GTest::gtest_main)
    target_precompile_headers(${headers} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/test_headers.h")
    # An upgrade brings system headers that are older than the build and younger than those before, of which ninja learns
    # nothing. As for objects, only a change of size is found then.
    target_compile_options(${headers} PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# How much text a batch has. A third of the time that 60 KB take goes into headers and the templates that all files have, so
# that larger batches save processor time, at 180 KB a fifth of all; but more cores than a few would wait for the last one.
cmake_host_system_information(RESULT rpcrdma_cores QUERY NUMBER_OF_LOGICAL_CORES)
set(rpcrdma_batch_size 180000)
if(rpcrdma_cores GREATER 4)
  set(rpcrdma_batch_size 60000)
endif()

# With RPCRDMA_BATCHES, has the compiler read several files of `target` as one (cmake/batches.py). Files that are generated
# take no part, since their names are not known yet. Call it behind what adds sources.
function(rpcrdma_batches target)
  if(NOT RPCRDMA_BATCHES)
    return()
  endif()
  set(script "${PROJECT_SOURCE_DIR}/cmake/batches.py")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.batches")
  get_target_property(sources ${target} SOURCES)
  set(files "")
  set(others "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR "${path}" is_generated)
    if(source MATCHES "^[^$<>]+\\.cc$" AND NOT is_generated)
      get_source_file_property(options "${source}" COMPILE_OPTIONS)
      get_source_file_property(definitions "${source}" COMPILE_DEFINITIONS)
      if(options OR definitions)
        message(FATAL_ERROR "${source} is compiled in a batch of ${target}: give its options to the target")
      endif()
      list(APPEND files "${path}")
    else()
      list(APPEND others "${source}")
    endif()
  endforeach()
  execute_process(COMMAND "${Python3_EXECUTABLE}" "${script}" plan "${folder}" ${rpcrdma_batch_size} ${files}
                  OUTPUT_VARIABLE batches COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/plan" "${script}")
  add_custom_command(OUTPUT "${folder}/checked" COMMAND "${Python3_EXECUTABLE}" "${script}" check "${folder}"
                     DEPENDS ${files} COMMENT "Checking the batches of ${target}" VERBATIM)
  set_source_files_properties(${batches} PROPERTIES OBJECT_DEPENDS "${folder}/checked")
  set_target_properties(${target} PROPERTIES SOURCES "${batches};${others}")
  # Types in anonymous namespaces are a matter of the files that the batch includes, and those are no headers.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# Registers a GoogleTest program with CTest twice: whole, or in `shards` parts that run at the same time, which is what
# scripts/build.sh runs; and each of its tests by its name, with the label `each`, for `ctest -R NAME`. A process for each
# of 3,400 tests took 155 s of 380.
function(rpcrdma_register_tests name timeout shards)
  foreach(index RANGE 1 ${shards})
    set(part ${name})
    set(environment "")
    if(shards GREATER 1)
      set(part ${name}_${index})
      math(EXPR zero_based "${index} - 1")
      set(environment "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${zero_based}")
    endif()
    add_test(NAME ${part} COMMAND ${name})
    set_tests_properties(${part} PROPERTIES TIMEOUT 900 LABELS "${ARGN}" ENVIRONMENT "${environment}")
  endforeach()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${timeout} LABELS each)
endfunction()

# Adds one GoogleTest program. `TIMEOUT`: of a single test, seconds. `SHARDS`: in how many parts it runs.
function(rpcrdma_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT;SHARDS" "SOURCES;LINKS;LABELS")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE rpcrdma_test_flags ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                             "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests"
                             "${PROJECT_SOURCE_DIR}/apps" "${PROJECT_SOURCE_DIR}")
  rpcrdma_precompile(${name})
  rpcrdma_batches(${name})
  rpcrdma_register_tests(${name} ${ARG_TIMEOUT} ${ARG_SHARDS} ${ARG_LABELS})
endfunction()

function(rpcrdma_module)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME" "DEPENDS;LINKS;SOURCES;TESTS;TEST_LINKS")
  set(target rpcrdma_${ARG_NAME})
  list(TRANSFORM ARG_DEPENDS PREPEND rpcrdma_ OUTPUT_VARIABLE depends)
  if(ARG_SOURCES)
    add_library(${target}_objects OBJECT ${ARG_SOURCES})
    target_link_libraries(${target}_objects PRIVATE rpcrdma_library_flags ${ARG_LINKS})
    target_compile_options(${target}_objects PRIVATE ${rpcrdma_busy_options})
    target_include_directories(${target}_objects PRIVATE "${PROJECT_SOURCE_DIR}/src"
                               "${PROJECT_SOURCE_DIR}/include")
    set_target_properties(${target}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
    rpcrdma_batches(${target}_objects)
    add_library(${target} ${rpcrdma_module_type} $<TARGET_OBJECTS:${target}_objects>)
    target_link_libraries(${target} PUBLIC ${depends} PRIVATE ${ARG_LINKS})
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON
      ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/modules")
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${depends})
  endif()
  set_property(GLOBAL APPEND PROPERTY RPCRDMA_MODULES ${target})
  if(RPCRDMA_BUILD_TESTS AND ARG_TESTS)
    rpcrdma_test(${ARG_NAME}_test SOURCES ${ARG_TESTS} LINKS ${target} ${ARG_TEST_LINKS})
  endif()
endfunction()

# librpcrdma: the objects of every module in one archive, which is what is installed, and what our own
# programs are linked with. With LTO it holds one object, already optimised across all files. With
# BUILD_SHARED_LIBS it is a shared library instead; before 1.0 each minor version has an ABI of its own.
function(rpcrdma_library)
  get_property(modules GLOBAL PROPERTY RPCRDMA_MODULES)
  set(objects "")
  foreach(module IN LISTS modules)
    if(TARGET ${module}_objects)
      list(APPEND objects $<TARGET_OBJECTS:${module}_objects>)
    endif()
  endforeach()
  if(RPCRDMA_LTO_USED AND NOT BUILD_SHARED_LIBS)
    rpcrdma_one_object(whole "${objects}")
    set(objects "${whole}")
  endif()
  if(BUILD_SHARED_LIBS)
    set(exports "${PROJECT_SOURCE_DIR}/cmake/librpcrdma.map")
    add_library(rpcrdma SHARED ${objects})
    target_compile_definitions(rpcrdma INTERFACE RPCRDMA_SHARED)
    target_link_options(rpcrdma PRIVATE "LINKER:--version-script=${exports}" LINKER:--no-undefined
                        $<$<BOOL:${RPCRDMA_LTO_USED}>:-flto=auto>)
    set_target_properties(rpcrdma PROPERTIES LINK_DEPENDS "${exports}" VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  else()
    add_library(rpcrdma STATIC ${objects})
  endif()
  add_library(rpcrdma::rpcrdma ALIAS rpcrdma)
  target_link_libraries(rpcrdma PRIVATE fmt::fmt $<$<BOOL:${RPCRDMA_ISAL_FOUND}>:PkgConfig::ISAL> ${CMAKE_DL_LIBS})
  target_compile_features(rpcrdma PUBLIC ${rpcrdma_language})
  if(RPCRDMA_STD_EXPECTED)
    target_compile_definitions(rpcrdma PUBLIC RPCRDMA_STD_EXPECTED)
  endif()
  target_include_directories(rpcrdma PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  set_target_properties(rpcrdma PROPERTIES ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
                        LINKER_LANGUAGE CXX)
endfunction()

# Sets `result` to the path of the object that those given become.
function(rpcrdma_one_object result objects)
  set(whole "${PROJECT_BINARY_DIR}/lib/rpcrdma.o")
  set(list "${PROJECT_BINARY_DIR}/lib/rpcrdma.objects")
  file(GENERATE OUTPUT "${list}" CONTENT "$<JOIN:${objects},\n>\n")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  add_custom_command(OUTPUT "${whole}"
    COMMAND ${CMAKE_COMMAND} -D "COMPILER=${CMAKE_CXX_COMPILER}"
            -D "FLAGS=${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${CMAKE_CXX_COMPILE_OPTIONS_PIC}"
            -D "NM=${RPCRDMA_LTO_NM}" -D "OBJCOPY=${CMAKE_OBJCOPY}" -D "OBJECTS=${list}" -D "OUTPUT=${whole}"
            -P "${PROJECT_SOURCE_DIR}/cmake/RpcrdmaOneObject.cmake"
    DEPENDS ${objects} "${list}" "${PROJECT_SOURCE_DIR}/cmake/RpcrdmaOneObject.cmake"
    COMMENT "Optimising the library across its files" VERBATIM)
  set(${result} "${whole}" PARENT_SCOPE)
endfunction()
