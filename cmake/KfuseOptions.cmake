# kfuse_options: what every target of kfuse is compiled and linked with.
add_library(kfuse_options INTERFACE)
target_include_directories(kfuse_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                                   ${PROJECT_BINARY_DIR})
target_compile_options(kfuse_options INTERFACE -Wall -Wextra -Wno-unused-parameter -ffunction-sections -fdata-sections
                                               -fvisibility=hidden -fvisibility-inlines-hidden)
# lld links static MLIR in under a second; --gc-sections and -s keep the tools at a few megabytes.
target_link_options(kfuse_options INTERFACE -fuse-ld=lld -Wl,--gc-sections -Wl,--as-needed)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT KFUSE_SANITIZE)
  target_link_options(kfuse_options INTERFACE -s)
endif()
if(KFUSE_SANITIZE)
  # What is found ends the process. -O1: a build takes half the time of -O3's, and tests run as long. "function" reads
  # a word before each function that is called through a pointer: kernels compiled at run time have none.
  set(sanitizers -fsanitize=address,undefined -fno-sanitize=vptr,function)
  target_compile_options(kfuse_options INTERFACE -O1 ${sanitizers} -fno-sanitize-recover=undefined
                                                 -fno-omit-frame-pointer)
  target_link_options(kfuse_options INTERFACE ${sanitizers})
else()
  # Tools carry their runtime, and what it takes from a glibc after 2.34.
  add_library(kfuse_older_glibc STATIC ${CMAKE_CURRENT_LIST_DIR}/older_glibc.c)
  target_link_libraries(kfuse_options INTERFACE kfuse_older_glibc)
  target_link_options(kfuse_options INTERFACE
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-static-libstdc++$<SEMICOLON>-static-libgcc>)
endif()

# kfuse_add_library(NAME SOURCES... LINK libraries...): one module, or a part of one.
function(kfuse_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC kfuse_options ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY KFUSE_LIBRARIES ${name})
endfunction()
