# Precompiled headers: a file that includes MLIR compiles in a third to a half of the time. Included last, when all
# targets are known. Clang alone: its precompiled header of MLIR takes 60 MB, that of g++ over 1 GB.
#
# Off, each file is compiled from its own includes, which shows one that is missing, and ccache finds objects of other
# checkouts.
option(KFUSE_PCH "Precompile the headers that most files include (needs clang)" ON)
if(NOT KFUSE_PCH OR NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  return()
endif()

set(std_headers algorithm array chrono cmath cstdint filesystem fstream functional map memory mutex numeric optional
                ranges set span sstream string thread unordered_map utility variant vector)
set(mlir_headers ${PROJECT_SOURCE_DIR}/ir/dialect/Kfuse.h mlir/Dialect/Func/IR/FuncOps.h mlir/IR/Builders.h
                 mlir/IR/BuiltinOps.h mlir/IR/PatternMatch.h mlir/Pass/PassManager.h llvm/ADT/MapVector.h
                 llvm/ADT/STLExtras.h llvm/ADT/SetVector.h llvm/ADT/StringExtras.h llvm/Support/raw_ostream.h)
set(text_headers fmt/format.h nlohmann/json.hpp)

# kfuse_precompile(TARGET HEADERS...): those that its files are compiled with. Without a time stamp, so that what
# ccache looks up does not depend on when.
function(kfuse_precompile target)
  list(TRANSFORM ARGN REPLACE "^([^/]+|(CLI|doctest|fmt|llvm|mlir|nlohmann)/.*)$" "<\\1$<ANGLE-R>" OUTPUT_VARIABLE headers)
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# kfuse_precompiled(NAME HEADERS...): a header that other targets use. It links nothing that they make.
function(kfuse_precompiled name)
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cpp "// Its target compiles a header.\n")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE kfuse_options)
  kfuse_precompile(${name} ${ARGN})
endfunction()

kfuse_precompiled(kfuse_pch_std ${std_headers})
kfuse_precompiled(kfuse_pch_mlir ${std_headers} ${mlir_headers})
add_dependencies(kfuse_pch_mlir KfuseDialectGen)
target_link_libraries(kfuse_pch_mlir PRIVATE kfuse_mlir)
kfuse_precompile(kfuse_tuner ${std_headers} ${text_headers})

# Sets `result` to whether `target` links `library`, directly or through others.
function(kfuse_links result target library)
  set(${result} FALSE PARENT_SCOPE)
  set(open ${target})
  set(seen)
  while(open)
    list(POP_FRONT open next)
    if(next IN_LIST seen OR NOT TARGET ${next})
      continue()
    elseif(next STREQUAL library)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
    list(APPEND seen ${next})
    get_target_property(links ${next} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(APPEND open ${links})
    endif()
  endwhile()
endfunction()

get_property(libraries GLOBAL PROPERTY KFUSE_LIBRARIES)
foreach(library IN LISTS libraries)
  if(library STREQUAL "kfuse_tuner")
    continue()
  endif()
  kfuse_links(has_mlir ${library} kfuse_mlir)
  if(has_mlir)
    target_precompile_headers(${library} REUSE_FROM kfuse_pch_mlir)
  else()
    target_precompile_headers(${library} REUSE_FROM kfuse_pch_std)
  endif()
endforeach()

# Programs are position independent in another way than libraries.
kfuse_precompile(kfuse-cli ${std_headers} ${mlir_headers} ${text_headers} CLI/App.hpp)
# kfuse_precompiled_tests(NAME OPTIMISATION PROGRAMS...): of programs that are optimised or not, as the header is.
function(kfuse_precompiled_tests name optimisation)
  kfuse_precompiled(${name} ${std_headers} ${mlir_headers} doctest/doctest.h)
  add_dependencies(${name} KfuseDialectGen)
  target_link_libraries(${name} PRIVATE kfuse_mlir)
  get_directory_property(definitions DIRECTORY tests COMPILE_DEFINITIONS)
  target_compile_definitions(${name} PRIVATE ${definitions})
  target_compile_options(${name} PRIVATE -fPIE ${optimisation})
  foreach(program IN LISTS ARGN)
    if(TARGET ${program})
      target_precompile_headers(${program} REUSE_FROM ${name})
    endif()
  endforeach()
endfunction()

if(KFUSE_BUILD_TESTS)
  kfuse_precompiled_tests(kfuse_pch_tests -O0 kfuse_compiler_tests kfuse_pack_tests kfuse_unit_tests kfuse_golden_tests
                          kfuse_gpu_tests)
  kfuse_precompiled_tests(kfuse_pch_computing -O1 kfuse_emulation_tests kfuse_cpu_numerics)
endif()
