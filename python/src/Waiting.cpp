#include "Waiting.h"

#include <chrono>

namespace kfuse::python {

void Inbox::put(const Progress &at) {
  std::scoped_lock lock(mutex);
  letters.progress = HeldProgress{std::string(at.kernel), at};
}

void Inbox::log(std::string_view line) {
  std::scoped_lock lock(mutex);
  letters.lines.emplace_back(line);
}

void Inbox::end() {
  std::scoped_lock lock(mutex);
  letters.isLast = true;
  ended.notify_one();
}

Inbox::Letters Inbox::wait() {
  nb::gil_scoped_release released;
  std::unique_lock lock(mutex);
  ended.wait_for(lock, std::chrono::milliseconds(100), [this] { return letters.isLast; });
  return std::exchange(letters, {});
}

bool deliver(const Inbox::Letters &letters, const nb::object &progress) {
  for (const std::string &line : letters.lines)
    nb::module_::import_("logging").attr("getLogger")("kfuse").attr("warning")("%s", line.c_str());
  if (!letters.progress || progress.is_none())
    return true;
  return progress(*letters.progress).ptr() != Py_False;
}

CallsUnderWay &CallsUnderWay::all() {
  static CallsUnderWay calls;
  return calls;
}

void CallsUnderWay::endAll() {
  ending.request_stop();
  nb::gil_scoped_release released;
  for (int i = 0; i < 300 && count > 0; ++i) // 3 s: a call ends within one.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

} // namespace kfuse::python
