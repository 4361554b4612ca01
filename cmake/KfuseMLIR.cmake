# kfuse_mlir: LLVM and MLIR 19 linked statically, so that the tools start on any glibc 2.34.
#
# Debian's MLIR archives all name the LLVM shared library. Each is rewritten here to name
# kfuse_llvm, an interface library of the static components instead.
find_package(MLIR 19.1 CONFIG REQUIRED)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# mlir_tablegen reads include directories of the folder; SYSTEM silences generated code.
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

llvm_map_components_to_libnames(KFUSE_LLVM_LIBS core support irreader bitwriter passes native targetparser
                                transformutils ipo)
add_library(kfuse_llvm INTERFACE)
target_link_libraries(kfuse_llvm INTERFACE ${KFUSE_LLVM_LIBS})

get_property(mlir_libs GLOBAL PROPERTY MLIR_ALL_LIBS)
foreach(lib IN LISTS mlir_libs)
  if(TARGET ${lib})
    get_target_property(links ${lib} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(TRANSFORM links REPLACE "^LLVM$" kfuse_llvm)
      set_target_properties(${lib} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
    endif()
  endif()
endforeach()
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "rt;dl;m;libz.a;libzstd.a;LLVMDemangle")

add_library(kfuse_mlir INTERFACE)
target_include_directories(kfuse_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(kfuse_mlir INTERFACE kfuse_llvm)
