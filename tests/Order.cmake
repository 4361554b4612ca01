# Read by ctest after it has listed a program's cases: which of them run beside others, and what comes first.
#
# Those that answer within a time run alone, and take the best of several tries (tests/unit/Pace.h); those that compute
# for a time count the processor's, and run beside others. Those that measure kernels on the CPU take its lock
# (tuner/peaks/DeviceLock.h) one after another: ctest starts one at a time of them, so that none waits in vain, or says that it waits where
# a test reads what is said. Those that use all cores by themselves come first. Those that wait for the lock are the
# longest chain (half of all the time, on two cores), so they begin before what runs beside them, which goes by the
# seconds that it takes on one core: the last ones are short, and no core is idle.
set(alone "^compile: a stop|^RemoteDevice: a stop|^RemoteCompiler: a stop|^device lock:|of this GPU|on this GPU")
set(measuring "^api:|^compile:|^compileModel:|^workbench:|^peaks:|^search:|^lease:|^end to end:|^RemoteDevice:")
set(on_all_cores "^Compile: (every|chains|configs)")
set(seconds
  "^Compile: " 1000
  "${measuring}" 120
  "^Emulated " 100
  "^random |^cpu\\." 50
  "^network store: |^onnx: " 10)

foreach(program kfuse_compiler_tests kfuse_unit_tests kfuse_golden_tests kfuse_emulation_tests kfuse_cpu_numerics)
  foreach(test IN LISTS ${program}_TESTS)
    if(test MATCHES "${alone}")
      set_tests_properties("${test}" PROPERTIES RUN_SERIAL ON)
    elseif(test MATCHES "${measuring}")
      set_tests_properties("${test}" PROPERTIES RESOURCE_LOCK cpu)
    elseif(test MATCHES "${on_all_cores}")
      set_tests_properties("${test}" PROPERTIES PROCESSORS 256) # As many as ctest was given.
    endif()
    set(rest ${seconds})
    while(rest)
      list(POP_FRONT rest pattern cost)
      if(test MATCHES "${pattern}")
        set_tests_properties("${test}" PROPERTIES COST ${cost})
        break()
      endif()
    endwhile()
  endforeach()
endforeach()
