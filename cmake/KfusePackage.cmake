# libkfuse.so: all modules in one shared library, LLVM and Boost hidden inside; find_package(kfuse)
# gives kfuse::kfuse. The tools link the same modules statically.
include(CMakePackageConfigHelpers)

set(map ${PROJECT_SOURCE_DIR}/cmake/libkfuse.map)
file(WRITE ${PROJECT_BINARY_DIR}/libkfuse.cpp "// libkfuse.so is made of the modules' static libraries.\n")
add_library(kfuse SHARED ${PROJECT_BINARY_DIR}/libkfuse.cpp)
add_library(kfuse::kfuse ALIAS kfuse)
# The archives that hold the public interface come in whole: nothing inside the library calls it.
set(public kfuse_api kfuse_ir kfuse_facts)
target_link_options(kfuse PRIVATE -Wl,--version-script=${map} -Wl,--whole-archive
                                  $<TARGET_FILE:kfuse_api> $<TARGET_FILE:kfuse_ir> $<TARGET_FILE:kfuse_facts>
                                  -Wl,--no-whole-archive)
# Debian's static protobuf, zstd and SQLiteCpp are not position independent: the library takes the shared
# ones (named first, so that nothing is taken from the archives) and its own libstdc++, hidden, for SQLiteCpp.
# Nothing is thrown across the interface, and memory comes from the one malloc.
target_link_options(kfuse PRIVATE -static-libstdc++ -static-libgcc -l:libprotobuf-lite.so -l:libsqlite3.so
                                  -l:libzstd.so -l:libz.so)
target_link_libraries(kfuse PRIVATE ${public} kfuse_options)
add_dependencies(kfuse ${public})
if(KFUSE_SANITIZE)
  set_target_properties(kfuse PROPERTIES EXCLUDE_FROM_ALL ON) # Nothing that is tested so links it.
endif()
# One file, libkfuse.so.0: in a wheel, which has no links, each name would be a copy.
# Libraries that a release puts beside it (tools/release.sh) are found there.
set_target_properties(kfuse PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map} INSTALL_RPATH "$ORIGIN")
target_compile_features(kfuse INTERFACE cxx_std_20)
target_include_directories(kfuse INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# What is of a component of its own is not in the wheel (python/pyproject.toml).
install(TARGETS kfuse EXPORT kfuseTargets LIBRARY NAMELINK_COMPONENT development)
install(TARGETS kfuse-cli)
install(TARGETS kfuse-opt COMPONENT development)
install(TARGETS kfuse-worker DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kfuse)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kfuse DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT kfuseTargets NAMESPACE kfuse:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kfuse)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kfuseConfig.cmake.in ${PROJECT_BINARY_DIR}/kfuseConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kfuse)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kfuseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kfuseConfig.cmake ${PROJECT_BINARY_DIR}/kfuseConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kfuse)
install(FILES ${PROJECT_BINARY_DIR}/kfuseConfig.cmake ${PROJECT_BINARY_DIR}/kfuseConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kfuse COMPONENT runtime)
