// What each record of the store is made of: its columns by name, for whoever visits them.
#pragma once

#include "tuner/store/StoreRows.h"

#include <concepts>
#include <type_traits>

namespace kfuse::tuner {

template <class T, class Record>
concept Either = std::same_as<std::remove_const_t<T>, Record>;

/// Calls `visit(name, field)` for each column; the first is the key. A field may take several columns (Timing,
/// Failure): the visitor names those.
template <class Visitor, Either<Choice> Record> void visitColumns(Visitor &&visit, Record &c) {
  visit("region", c.region);
  visit("kernel", c.kernel);
  visit("name", c.name);
  visit("ops", c.ops);
  visit("target", c.target);
  visit("sku", c.sku);
  visit("compiler", c.compiler);
  visit("driver", c.driver);
  visit("config", c.config);
  visit("effort", c.effort);
  visit("timing", c.timing);
  visit("candidates", c.candidates);
  visit("failed", c.failed);
  visit("cut", c.cut);
  visit("ruled_out", c.ruledOut);
  visit("stop", c.stop);
  visit("sm_mhz", c.conditions.smMhz);
  visit("memory_mhz", c.conditions.memoryMhz);
  visit("watts", c.conditions.watts);
  visit("celsius", c.conditions.celsius);
  visit("at", c.at);
}

template <class Visitor, Either<Measurement> Record> void visitColumns(Visitor &&visit, Record &m) {
  visit("kernel", m.kernel);
  visit("region", m.region);
  visit("config", m.config);
  visit("driver", m.driver);
  visit("estimate_us", m.estimateUs);
  visit("timing", m.timing);
  visit("failure", m.failure);
  visit("at", m.at);
}

template <class Visitor, Either<StoredPeaks> Record> void visitColumns(Visitor &&visit, Record &p) {
  visit("sku", p.sku);
  visit("read_bytes_per_us", p.peaks.readBytesPerUs);
  visit("write_bytes_per_us", p.peaks.writeBytesPerUs);
  visit("copy_bytes_per_us", p.peaks.copyBytesPerUs);
  visit("f32_burst", p.peaks.f32Burst);
  visit("f32_sustained", p.peaks.f32Sustained);
  visit("half_burst", p.peaks.halfBurst);
  visit("half_sustained", p.peaks.halfSustained);
  visit("launch_us", p.peaks.launchUs);
  visit("remark", p.peaks.remark);
}

template <class Visitor, Either<StoredBinary> Record> void visitColumns(Visitor &&visit, Record &b) {
  visit("kernel", b.kernel);
  visit("registers", b.binary.facts.registers);
  visit("spill_bytes", b.binary.facts.spillBytes);
  visit("stack_bytes", b.binary.facts.stackBytes);
  visit("shared_bytes", b.binary.facts.staticSharedBytes);
  visit("compile_ms", b.binary.compileMs);
  visit("log", b.binary.log);
  visit("image", b.binary.image);
}

} // namespace kfuse::tuner
