# rpcrdma_module(NAME xdr DEPENDS base [LINKS fmt::fmt] SOURCES reader.cc ... [TESTS reader_test.cc ...]
#                [TEST_LINKS ...])
#
# One module = one folder = one static library `rpcrdma_<name>`. Its unit tests link only what the
# module declares, so that an upward call does not link. Sources are listed by hand. A header-only
# module gives no SOURCES.

add_library(rpcrdma_common_flags INTERFACE)
target_compile_features(rpcrdma_common_flags INTERFACE cxx_std_20)
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
if(RPCRDMA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Its name for a type within an anonymous namespace when another file includes its file. And it looks for memory that it
  # no longer needs from 128 MiB on, over and over: a twentieth to a sixth of the time of files that take 400 MiB to 1.2 GiB.
  target_compile_options(rpcrdma_common_flags INTERFACE -Wno-subobject-linkage
                         "SHELL:--param ggc-min-heapsize=1000000")
elseif(RPCRDMA_UNITY)
  target_compile_options(rpcrdma_common_flags INTERFACE -Wno-shadow)  # a local has the name of another file's constant
  find_program(RPCRDMA_LLD ld.lld)  # a third of the time of the usual one, for eighty programs
  mark_as_advanced(RPCRDMA_LLD)
  if(RPCRDMA_LLD)
    target_link_options(rpcrdma_common_flags INTERFACE -fuse-ld=lld)
  endif()
endif()
if(RPCRDMA_WERROR)
  target_compile_options(rpcrdma_common_flags INTERFACE -Werror)
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
# Of the library's modules and providers. With GCC: a NULL call takes a fifth less time so. rpcrdma_library() makes what is
# installed of it, and reads the symbols of the objects: hence fat ones. Programs are linked with that one object of machine
# code; to optimise them, too, compiled each of their files twice and took 146 s in links.
add_library(rpcrdma_library_flags INTERFACE)
target_link_libraries(rpcrdma_library_flags INTERFACE rpcrdma_flags)
if(RPCRDMA_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(rpcrdma_library_flags INTERFACE -flto=auto -ffat-lto-objects)
  target_link_options(rpcrdma_library_flags INTERFACE -flto=auto)
  # What is linked with modules, and not with the library, takes their machine code.
  target_link_options(rpcrdma_test_flags INTERFACE -fno-lto)
  target_link_options(rpcrdma_command_flags INTERFACE -fno-lto)
endif()

if(RPCRDMA_SANITIZE)
  set(sanitize_tests "-fsanitize=${RPCRDMA_SANITIZE}")
  set(sanitize_commands "-fsanitize=${RPCRDMA_SANITIZE}")
  if(RPCRDMA_SANITIZE STREQUAL "address,undefined")
    # Tests were half of what make check compiles, and UBSan and optimising two thirds of that
    # (backward_test.cc: 21.6 s with both, 7.5 s without). What they test has UBSan; of that the library
    # is optimised, since calls by the million go through it, and the simulator, since it runs for minutes.
    set(sanitize_tests -fsanitize=address)
    # The same for what CLI11 and the JSON library are in: a third of the command took 68 s, and 27 s so.
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
# Tests insert into vectors of std::byte, where GCC 12 at -O2 sees overflows that are not there; the
# library's own code is checked without this.
target_compile_options(rpcrdma_test_flags INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)

set_property(GLOBAL PROPERTY RPCRDMA_MODULES "")

# Registers a GoogleTest program with CTest twice: as one test, which is what scripts/build.sh runs, and each of its tests
# by its name, with the label `each`, for `ctest -R NAME`. A process for each of 3,400 tests took 155 s of 380.
function(rpcrdma_register_tests name timeout)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${ARGN}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${timeout} LABELS each)
endfunction()

# Has a program of tests read what most of them include as the compiler wrote it down once: 2 to 4 s of 6 to 15 s for each.
function(rpcrdma_use_test_headers name)
  if(NOT TARGET rpcrdma_test_headers)
    file(WRITE "${PROJECT_BINARY_DIR}/test_headers.cc" "")
    add_library(rpcrdma_test_headers OBJECT "${PROJECT_BINARY_DIR}/test_headers.cc")
    target_link_libraries(rpcrdma_test_headers PRIVATE rpcrdma_test_flags GTest::gmock GTest::gtest_main tl::expected)
    target_include_directories(rpcrdma_test_headers PRIVATE "${PROJECT_SOURCE_DIR}/src"
                               "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests")
    target_precompile_headers(rpcrdma_test_headers PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/test_headers.h")
  endif()
  target_precompile_headers(${name} REUSE_FROM rpcrdma_test_headers)
endfunction()

# Adds one GoogleTest program. `TIMEOUT`: of a single test, seconds.
function(rpcrdma_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE rpcrdma_test_flags ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                             "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests"
                             "${PROJECT_SOURCE_DIR}/apps" "${PROJECT_SOURCE_DIR}")
  if(RPCRDMA_UNITY)
    rpcrdma_use_test_headers(${name})
  endif()
  rpcrdma_register_tests(${name} ${ARG_TIMEOUT} ${ARG_LABELS})
endfunction()

function(rpcrdma_module)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME" "DEPENDS;LINKS;SOURCES;TESTS;TEST_LINKS")
  set(target rpcrdma_${ARG_NAME})
  list(TRANSFORM ARG_DEPENDS PREPEND rpcrdma_ OUTPUT_VARIABLE depends)
  if(ARG_SOURCES)
    add_library(${target}_objects OBJECT ${ARG_SOURCES})
    target_link_libraries(${target}_objects PRIVATE rpcrdma_library_flags ${ARG_LINKS} tl::expected)
    target_compile_options(${target}_objects PRIVATE ${rpcrdma_busy_options})
    target_include_directories(${target}_objects PRIVATE "${PROJECT_SOURCE_DIR}/src"
                               "${PROJECT_SOURCE_DIR}/include")
    set_target_properties(${target}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
    add_library(${target} ${rpcrdma_module_type} $<TARGET_OBJECTS:${target}_objects>)
    target_link_libraries(${target} PUBLIC ${depends} PRIVATE ${ARG_LINKS})
    target_link_libraries(${target} PUBLIC tl::expected)
    set_target_properties(${target} PROPERTIES
      ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/modules")
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${depends} tl::expected)
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
  if(RPCRDMA_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT BUILD_SHARED_LIBS)
    rpcrdma_one_object(whole "${objects}")
    set(objects "${whole}")
  endif()
  if(BUILD_SHARED_LIBS)
    set(exports "${PROJECT_SOURCE_DIR}/cmake/librpcrdma.map")
    add_library(rpcrdma SHARED ${objects})
    target_compile_definitions(rpcrdma INTERFACE RPCRDMA_SHARED)
    target_link_options(rpcrdma PRIVATE "LINKER:--version-script=${exports}" LINKER:--no-undefined
                        $<$<AND:$<BOOL:${RPCRDMA_LTO}>,$<CXX_COMPILER_ID:GNU>>:-flto=auto>)
    set_target_properties(rpcrdma PROPERTIES LINK_DEPENDS "${exports}" VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
  else()
    add_library(rpcrdma STATIC ${objects})
  endif()
  add_library(rpcrdma::rpcrdma ALIAS rpcrdma)
  target_link_libraries(rpcrdma PUBLIC tl::expected PRIVATE fmt::fmt PkgConfig::ISAL ${CMAKE_DL_LIBS})
  target_compile_features(rpcrdma PUBLIC cxx_std_20)
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
            -D "NM=${CMAKE_NM}" -D "OBJCOPY=${CMAKE_OBJCOPY}" -D "OBJECTS=${list}" -D "OUTPUT=${whole}"
            -P "${PROJECT_SOURCE_DIR}/cmake/RpcrdmaOneObject.cmake"
    DEPENDS ${objects} "${list}" "${PROJECT_SOURCE_DIR}/cmake/RpcrdmaOneObject.cmake"
    COMMENT "Optimising the library across its files" VERBATIM)
  set(${result} "${whole}" PARENT_SCOPE)
endfunction()
